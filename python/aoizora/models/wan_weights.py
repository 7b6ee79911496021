"""Weights of diffusers' ``WanTransformer3DModel`` -> the parameters of ``wan.py``.

Works on a flat dict of NumPy arrays with diffusers' names, which is also what a safetensors
checkpoint holds. Linear weights are [out, in] there and [in, out] here; blocks are stacked.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aoizora.errors import UserError
from aoizora.models.wan_params import Param, Params, WanConfig, is_param, param_specs

Flat = Mapping[str, np.ndarray[Any, Any]]

# Our name -> diffusers' name, where they differ by more than kernel/scale against weight.
RENAMED = {
    "to_out": "to_out.0",
    "ffn.net_0": "ffn.net.0.proj",
    "ffn.net_2": "ffn.net.2",
    "ff.net_0": "ff.net.0.proj",
    "ff.net_2": "ff.net.2",
}


def source_name(path: tuple[Any, ...]) -> str:
    """diffusers' name of a parameter; a stacked one has ``{layer}`` for its block number."""
    parts = [str(getattr(k, "key", k)) for k in path]
    name = ".".join("weight" if p in ("kernel", "scale") else p for p in parts)
    for ours, theirs in RENAMED.items():
        name = name.replace(f".{ours}.", f".{theirs}.")
    return name.replace("blocks.", "blocks.{layer}.", 1) if name.startswith("blocks.") else name


def _take(flat: Flat, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """One array in our layout, refused when it is missing or has another size."""
    if name not in flat:
        raise UserError(f"the checkpoint has no {name!r}")
    x = np.asarray(flat[name])
    if name == "condition_embedder.time_proj.weight":
        x = x.T  # [6*C, C] -> [C, 6*C], then split
    elif name == "patch_embedding.weight":
        x = x.reshape(x.shape[0], -1).T  # a convolution over whole patches is a matmul
    elif name.endswith(".weight") and x.ndim == 2:
        x = x.T
    if x.size != int(np.prod(shape)):
        raise UserError(f"{name!r} has {x.size} values, the config needs shape {shape}")
    return x.reshape(shape)


def convert(flat: Flat, cfg: WanConfig) -> Params:
    """Parameters of ``wan.py`` from a flat dict with diffusers' names."""

    def make(path: tuple[Any, ...], p: Param) -> jax.Array:
        name = source_name(path)
        if "{layer}" not in name:
            return jnp.asarray(_take(flat, name, p.shape), p.dtype)
        layers = [
            _take(flat, name.format(layer=i), p.shape[1:]).astype(np.float32)
            for i in range(cfg.layers)
        ]
        return jnp.asarray(np.stack(layers), p.dtype)

    params: Params = jax.tree_util.tree_map_with_path(make, param_specs(cfg), is_leaf=is_param)
    return params


def load_safetensors(path: str) -> dict[str, np.ndarray[Any, Any]]:
    """Reads one safetensors file, or all of a folder (a sharded diffusers checkpoint)."""
    try:
        # The Flax reader knows bfloat16, which NumPy's does not.
        from safetensors.flax import load_file
    except ImportError as error:
        raise UserError(
            "reading a checkpoint needs safetensors: pip install safetensors"
        ) from error
    files = (
        sorted(glob.glob(os.path.join(path, "*.safetensors"))) if os.path.isdir(path) else [path]
    )
    if not files:
        raise UserError(f"no *.safetensors in {path}")
    flat: dict[str, np.ndarray[Any, Any]] = {}
    for file in files:
        try:
            flat |= {name: np.asarray(x) for name, x in load_file(file).items()}
        except Exception as error:
            raise UserError(f"can't read {file}: {error}") from error
    return flat
