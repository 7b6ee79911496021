"""Sizes of the Wan 2.1 models and the shapes and logical axes of their parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Params = dict[str, Any]


@dataclass(frozen=True)
class WanConfig:
    """Sizes of one Wan model; the names in brackets are diffusers'.

    ``token_block`` and ``shard_block``: the padded sequence is a multiple of the first, and each
    context shard of the second (both in tokens).
    """

    heads: int  # num_attention_heads
    layers: int  # num_layers
    mlp: int  # ffn_dim
    head_dim: int = 128  # attention_head_dim
    in_channels: int = 16
    out_channels: int = 16
    patch: tuple[int, int, int] = (1, 2, 2)
    text_dim: int = 4096
    text_tokens: int = 512
    freq_dim: int = 256
    image_dim: int | None = None  # image_dim; None: text only
    image_tokens: int = 257
    eps: float = 1e-6
    dtype: str = "bfloat16"
    token_block: int = 512
    shard_block: int = 128

    @property
    def width(self) -> int:
        """Model width C."""
        return self.heads * self.head_dim


CONFIGS = {
    "wan2.1-t2v-1.3b": WanConfig(heads=12, layers=30, mlp=8960),
    "wan2.1-t2v-14b": WanConfig(heads=40, layers=40, mlp=13824),
    "wan2.1-i2v-14b": WanConfig(heads=40, layers=40, mlp=13824, in_channels=36, image_dim=1280),
}


@dataclass(frozen=True)
class Param:
    """Shape, logical axes and dtype of one parameter."""

    shape: tuple[int, ...]
    axes: tuple[str | None, ...]
    dtype: str


def is_param(x: Any) -> bool:
    """True for the leaves of a parameter specification."""
    return isinstance(x, Param)


def _linear(
    dtype: str, n_in: int, n_out: int, a_in: str | None, a_out: str | None
) -> dict[str, Param]:
    # A vector along the residual stream stays whole: sharding a few kilobytes saves nothing and
    # costs a collective in every layer.
    a_bias = None if a_out == "embed" else a_out
    return {
        "kernel": Param((n_in, n_out), (a_in, a_out), dtype),
        "bias": Param((n_out,), (a_bias,), dtype),
    }


def _head_norm(n: int, dtype: str) -> dict[str, Param]:
    """Scale of the RMS norm over all heads of q or k."""
    return {"scale": Param((n,), ("norm",), dtype)}


def _layer_norm(n: int, dtype: str) -> dict[str, Param]:
    """Scale and shift along the residual stream. Not ``norm``: that is sharded with the heads,
    and a sharded scale here would make Shardy normalise shards and gather the whole activation.
    """
    return {"scale": Param((n,), (None,), dtype), "bias": Param((n,), (None,), dtype)}


def _attention(cfg: WanConfig, image: bool) -> Params:
    c, dt = cfg.width, cfg.dtype
    p: Params = {n: _linear(dt, c, c, "embed", "heads") for n in ("to_q", "to_k", "to_v")}
    p["to_out"] = _linear(dt, c, c, "heads", "embed")
    p |= {"norm_q": _head_norm(c, dt), "norm_k": _head_norm(c, dt)}
    if image:
        p |= {n: _linear(dt, c, c, "embed", "heads") for n in ("add_k_proj", "add_v_proj")}
        p["norm_added_k"] = _head_norm(c, dt)
    return p


def _block(cfg: WanConfig) -> Params:
    c, dt = cfg.width, cfg.dtype
    return {
        "attn1": _attention(cfg, image=False),
        "attn2": _attention(cfg, image=cfg.image_dim is not None),
        "norm2": _layer_norm(c, "float32"),
        "ffn": {
            "net_0": _linear(dt, c, cfg.mlp, "embed", "mlp"),
            "net_2": _linear(dt, cfg.mlp, c, "mlp", "embed"),
        },
        "scale_shift_table": Param((6, c), (None, None), "float32"),
    }


def _conditions(cfg: WanConfig) -> Params:
    c, dt = cfg.width, cfg.dtype
    p: Params = {
        # diffusers keeps the time embedder in float32
        "time_embedder": {
            "linear_1": _linear("float32", cfg.freq_dim, c, None, "mlp"),
            "linear_2": _linear("float32", c, c, "mlp", "embed"),
        },
        "time_proj": {
            "kernel": Param((c, 6, c), ("embed", None, "mlp"), dt),
            "bias": Param((6, c), (None, "mlp"), dt),
        },
        "text_embedder": {
            "linear_1": _linear(dt, cfg.text_dim, c, None, "mlp"),
            "linear_2": _linear(dt, c, c, "mlp", "embed"),
        },
    }
    if cfg.image_dim is not None:
        d = cfg.image_dim
        p["image_embedder"] = {
            "norm1": _layer_norm(d, dt),
            "ff": {
                "net_0": _linear(dt, d, d, None, "mlp"),
                "net_2": _linear(dt, d, c, "mlp", "embed"),
            },
            "norm2": _layer_norm(c, dt),
        }
    return p


def param_specs(cfg: WanConfig) -> Params:
    """Nested dict of ``Param``; block parameters have a leading ``layers`` axis."""
    c, dt, volume = cfg.width, cfg.dtype, math.prod(cfg.patch)
    stacked = jax.tree.map(
        lambda p: Param((cfg.layers, *p.shape), ("layers", *p.axes), p.dtype),
        _block(cfg),
        is_leaf=is_param,
    )
    return {
        "patch_embedding": _linear(dt, cfg.in_channels * volume, c, None, None),
        "condition_embedder": _conditions(cfg),
        "blocks": stacked,
        "scale_shift_table": Param((2, c), (None, None), "float32"),
        "proj_out": _linear(dt, c, cfg.out_channels * volume, "embed", None),
    }


def random_params(cfg: WanConfig, seed: int) -> Params:
    """Random weights for tests, scaled so that activations stay near one."""
    rng = np.random.default_rng(seed)

    def make(p: Param) -> jax.Array:
        fan_in = math.prod(p.shape[:-1]) if len(p.shape) > 1 else 1
        x = rng.normal(size=p.shape) / math.sqrt(max(1, min(fan_in, cfg.mlp)))
        return jnp.asarray(x, p.dtype)

    params: Params = jax.tree.map(make, param_specs(cfg), is_leaf=is_param)
    return params
