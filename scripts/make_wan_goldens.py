"""Makes tests/python/data/wan_*.npz with diffusers: the truth that wan.py must equal.

Needs torch and diffusers, which nothing else here does; use an environment of their own:

    python -m venv /tmp/torchvenv && /tmp/torchvenv/bin/pip install torch diffusers
    /tmp/torchvenv/bin/python scripts/make_wan_goldens.py

Each file holds a random tiny config (``config``, JSON), its state dict (``weight/NAME``) and
inputs and output of several shapes (``case/I/NAME``). Run it again when the model changes.
"""

from __future__ import annotations

import json
import pathlib

import diffusers
import numpy as np
import torch

DATA = pathlib.Path(__file__).parents[1] / "tests" / "python" / "data"
BASE = {
    "num_attention_heads": 4,
    "attention_head_dim": 12,
    "text_dim": 16,
    "freq_dim": 16,
    "ffn_dim": 40,
    "num_layers": 2,
    "rope_max_seq_len": 64,
}
IMAGE = {"in_channels": 9, "out_channels": 4, "image_dim": 20, "added_kv_proj_dim": 48}
CONFIGS = {"t2v": BASE | {"in_channels": 4, "out_channels": 4}, "i2v": BASE | IMAGE}
SHAPES = [(2, 3, 8, 6), (1, 1, 4, 4), (1, 5, 2, 10)]  # batch, latent frames, rows, columns
IMAGE_TOKENS = 5


def make_case(
    model: torch.nn.Module, config: dict[str, int], shape: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Random inputs of one shape and the output for them."""
    batch, *latent = shape
    inputs = {
        "latents": torch.randn(batch, config["in_channels"], *latent),
        "timestep": torch.linspace(7.0, 931.0, batch),
        # diffusers' image cross-attention takes the text length to be 512
        "text": torch.randn(batch, 512, config["text_dim"]),
    }
    if "image_dim" in config:
        inputs["image"] = torch.randn(batch, IMAGE_TOKENS, config["image_dim"])
    with torch.no_grad():
        output = model(
            inputs["latents"], inputs["timestep"], inputs["text"], inputs.get("image")
        ).sample
    return {k: v.numpy() for k, v in (inputs | {"output": output}).items()}


def main() -> None:
    """Writes one file per config."""
    DATA.mkdir(parents=True, exist_ok=True)
    for name, config in CONFIGS.items():
        torch.manual_seed(sum(map(ord, name)))
        model = diffusers.WanTransformer3DModel(**config).float().eval()
        for p in model.parameters():
            # Norm scales and biases start at one and zero, which would hide mistakes.
            torch.nn.init.normal_(p, std=0.2 if p.ndim > 1 else 0.5)
        arrays = {f"weight/{k}": v.numpy() for k, v in model.state_dict().items()}
        for i, shape in enumerate(SHAPES):
            case = make_case(model, config, shape)
            arrays |= {f"case/{i}/{k}": v for k, v in case.items()}
        versions = {"torch": torch.__version__, "diffusers": diffusers.__version__}
        arrays["config"] = np.array(json.dumps(config | {"versions": versions}))
        np.savez_compressed(DATA / f"wan_{name}.npz", **arrays)
        print(name, {k: v.shape for k, v in arrays.items() if k.endswith("output")})


if __name__ == "__main__":
    main()
