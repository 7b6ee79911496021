"""Wan 2.1 video diffusion transformer, from text (T2V) or text and image (I2V), in plain JAX.

Follows diffusers' ``WanTransformer3DModel`` operation by operation and in its names, so that
weights map one to one (``wan_weights.py``). Parameters are a nested dict; the blocks are stacked
along a leading ``layers`` axis and scanned.

Shapes: B batch, T/Y/X latent frames/rows/columns, L padded tokens, C model width, H heads,
D head dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from aoizora.models.attention import Kernel, cross_attention, self_attention
from aoizora.models.rules import Sharder
from aoizora.models.wan_params import Params, WanConfig

HIDDEN = ("activation_batch", "activation_length", "activation_embed")
TEXT = ("activation_batch", None, "activation_embed")


@dataclass(frozen=True)
class Grid:
    """Latent size and the token grid that patches make of it."""

    latent: tuple[int, int, int]
    patches: tuple[int, int, int]
    padded: int

    @property
    def tokens(self) -> int:
        """True tokens, before padding."""
        return math.prod(self.patches)


def make_grid(cfg: WanConfig, latent: tuple[int, int, int], context: int = 1) -> Grid:
    """Pads the tokens so that each of ``context`` shards is a whole number of kernel blocks.

    The whole is also padded to ``cfg.token_block``, because the flash kernel's key block must
    divide it and small blocks are slow.
    """
    patches = tuple(n // p for n, p in zip(latent, cfg.patch, strict=True))
    unit = math.lcm(cfg.token_block, cfg.shard_block * context)
    tokens = math.prod(patches)
    return Grid(latent, (patches[0], patches[1], patches[2]), -(-tokens // unit) * unit)


@dataclass(frozen=True)
class Run:
    """What every layer needs to know: config, grid, how to shard, which attention."""

    cfg: WanConfig
    grid: Grid
    sharder: Sharder
    kernel: Kernel
    attention: str

    def __hash__(self) -> int:
        return id(self)


def linear(p: Params, x: jax.Array) -> jax.Array:
    """x [..., in] by kernel [in, out] plus bias [out]."""
    return x @ p["kernel"] + p["bias"]


def layer_norm(x: jax.Array, eps: float, p: Params | None = None) -> jax.Array:
    """Layer norm over the last axis in float32, with scale and shift if ``p`` is given."""
    x = x.astype(jnp.float32)
    x = x - x.mean(-1, keepdims=True)
    x = x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps)
    return x if p is None else x * p["scale"] + p["bias"]


def rms_norm(x: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    """RMS norm over the last axis (all heads together), computed in float32."""
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + eps)
    return (y * scale.astype(jnp.float32)).astype(x.dtype)


def patchify(x: jax.Array, patch: tuple[int, int, int]) -> jax.Array:
    """[B, C, T, Y, X] -> [B, tokens, C*pt*py*px], the unfolded input of the patch convolution."""
    b, c, t, y, w = x.shape
    pt, py, px = patch
    x = x.reshape(b, c, t // pt, pt, y // py, py, w // px, px)
    x = x.transpose(0, 2, 4, 6, 1, 3, 5, 7)
    return x.reshape(b, -1, c * pt * py * px)


def unpatchify(x: jax.Array, grid: Grid, patch: tuple[int, int, int]) -> jax.Array:
    """[B, tokens, pt*py*px*C] -> [B, C, T, Y, X]; channels are innermost, as diffusers has it."""
    b = x.shape[0]
    x = x.reshape(b, *grid.patches, *patch, -1).transpose(0, 7, 1, 4, 2, 5, 3, 6)
    return x.reshape(b, -1, *grid.latent)


def _axis_table(length: int, dim: int) -> np.ndarray[Any, Any]:
    """Angles [length, dim/2] of one axis, in float64 as diffusers computes them."""
    freqs = 1.0 / 10000.0 ** (np.arange(0, dim, 2, dtype=np.float64) / dim)
    return np.outer(np.arange(length), freqs)


def rotary_tables(grid: Grid, head_dim: int) -> tuple[jax.Array, jax.Array]:
    """cos and sin [padded tokens, D/2], float32, for time, row and column.

    Only the three small tables of one axis each are constants of the program; the full ones
    would be tens of megabytes.
    """
    spatial = 2 * (head_dim // 6)
    dims = (head_dim - 2 * spatial, spatial, spatial)
    tables = []
    for fn in (np.cos, np.sin):
        parts = []
        for axis, (n, dim) in enumerate(zip(grid.patches, dims, strict=True)):
            part = jnp.asarray(fn(_axis_table(n, dim)), jnp.float32)
            shape = [n if i == axis else 1 for i in range(3)] + [dim // 2]
            parts.append(jnp.broadcast_to(part.reshape(shape), (*grid.patches, dim // 2)))
        table = jnp.concatenate(parts, -1).reshape(grid.tokens, head_dim // 2)
        tables.append(jnp.pad(table, ((0, grid.padded - grid.tokens), (0, 0))))
    return tables[0], tables[1]


def apply_rotary(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Rotates neighbouring pairs of x [B, L, H, D] by the tables [L, D/2]."""
    pairs = x.reshape(*x.shape[:-1], -1, 2).astype(jnp.float32)
    a, b = pairs[..., 0], pairs[..., 1]
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape).astype(x.dtype)


def time_embedding(cfg: WanConfig, p: Params, timestep: jax.Array) -> tuple[jax.Array, jax.Array]:
    """timestep [B] -> embedding [B, C] and its six modulation vectors [B, 6, C], float32."""
    half = cfg.freq_dim // 2
    freqs = jnp.exp(-math.log(10000.0) * jnp.arange(half, dtype=jnp.float32) / half)
    angles = timestep.astype(jnp.float32)[:, None] * freqs
    x = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1)
    x = linear(p["time_embedder"]["linear_1"], x)
    temb = linear(p["time_embedder"]["linear_2"], jax.nn.silu(x)).astype(cfg.dtype)
    proj = p["time_proj"]
    six = jnp.einsum("bc,csd->bsd", jax.nn.silu(temb), proj["kernel"]) + proj["bias"]
    return temb.astype(jnp.float32), six.astype(jnp.float32)


def text_embedding(p: Params, text: jax.Array) -> jax.Array:
    """Text states [B, 512, text width] -> [B, 512, C]."""
    x = jax.nn.gelu(linear(p["linear_1"], text), approximate=True)
    return linear(p["linear_2"], x)


def image_embedding(p: Params, image: jax.Array) -> jax.Array:
    """Image states [B, image tokens, image width] -> [B, image tokens, C]; exact GELU."""
    x = layer_norm(image, 1e-5, p["norm1"]).astype(image.dtype)
    x = jax.nn.gelu(linear(p["ff"]["net_0"], x), approximate=False)
    x = linear(p["ff"]["net_2"], x)
    return layer_norm(x, 1e-5, p["norm2"]).astype(x.dtype)


def _heads(cfg: WanConfig, x: jax.Array) -> jax.Array:
    return x.reshape(*x.shape[:-1], cfg.heads, cfg.head_dim)


def self_block(run: Run, p: Params, x: jax.Array, rotary: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Self-attention with RMS-normed, rotated q and k: [B, L, C] -> [B, L, C]."""
    cfg = run.cfg
    q = rms_norm(linear(p["to_q"], x), p["norm_q"]["scale"], cfg.eps)
    k = rms_norm(linear(p["to_k"], x), p["norm_k"]["scale"], cfg.eps)
    q, k, v = (_heads(cfg, y) for y in (q, k, linear(p["to_v"], x)))
    q, k = (apply_rotary(y, *rotary) for y in (q, k))
    out = self_attention(run.sharder, run.kernel, run.attention, run.grid.tokens, (q, k, v))
    return linear(p["to_out"], out.reshape(x.shape))


def cross_block(
    run: Run, p: Params, x: jax.Array, text: jax.Array, image: jax.Array | None
) -> jax.Array:
    """Cross-attention of [B, L, C] to text and, added to it, to image tokens."""
    cfg = run.cfg
    q = _heads(cfg, rms_norm(linear(p["to_q"], x), p["norm_q"]["scale"], cfg.eps))
    k = _heads(cfg, rms_norm(linear(p["to_k"], text), p["norm_k"]["scale"], cfg.eps))
    v = _heads(cfg, linear(p["to_v"], text))
    out = cross_attention(run.sharder, run.kernel, "text", (q, k, v))
    if image is not None:
        k = rms_norm(linear(p["add_k_proj"], image), p["norm_added_k"]["scale"], cfg.eps)
        v = linear(p["add_v_proj"], image)
        k, v = _heads(cfg, k), _heads(cfg, v)
        out = out + cross_attention(run.sharder, run.kernel, "image", (q, k, v))
    return linear(p["to_out"], out.reshape(x.shape))


def feed_forward(run: Run, p: Params, x: jax.Array) -> jax.Array:
    """GELU-tanh MLP: [B, L, C] -> [B, L, C]."""
    x = jax.nn.gelu(linear(p["net_0"], x), approximate=True)
    x = run.sharder.annotate(
        "ffn.hidden", x, ("activation_batch", "activation_length", "activation_mlp")
    )
    return linear(p["net_2"], x)


def block(
    run: Run,
    conditions: tuple[Any, ...],
    x: jax.Array,
    p: Params,
) -> jax.Array:
    """One transformer block on the residual stream x [B, L, C]."""
    six, text, image, rotary = conditions
    cfg, dtype = run.cfg, x.dtype
    mods = p["scale_shift_table"].astype(jnp.float32)[None] + six
    shift, scale, gate, c_shift, c_scale, c_gate = (mods[:, i : i + 1] for i in range(6))
    y = (layer_norm(x, cfg.eps) * (1 + scale) + shift).astype(dtype)
    y = self_block(run, p["attn1"], y, rotary)
    x = run.sharder.annotate("block.hidden", (x + y * gate).astype(dtype), HIDDEN)
    y = layer_norm(x, cfg.eps, p["norm2"]).astype(dtype)
    x = run.sharder.annotate(
        "block.hidden", x + cross_block(run, p["attn2"], y, text, image), HIDDEN
    )
    y = (layer_norm(x, cfg.eps) * (1 + c_scale) + c_shift).astype(dtype)
    y = feed_forward(run, p["ffn"], y)
    return run.sharder.annotate("block.hidden", (x + y * c_gate).astype(dtype), HIDDEN)


def _replicated(run: Run, name: str, x: jax.Array, batch: bool) -> jax.Array:
    """Keeps x whole along the sequence: Shardy has no halo for the pad and slice beside it."""
    axes = ("activation_batch" if batch else None,) + (None,) * (x.ndim - 1)
    return run.sharder.annotate(name, x, axes)


def embed(run: Run, params: Params, latents: jax.Array) -> jax.Array:
    """Latents [B, channels, T, Y, X] -> padded token stream [B, L, C]."""
    grid = run.grid
    x = patchify(latents, run.cfg.patch)
    x = jnp.pad(x, ((0, 0), (0, grid.padded - grid.tokens), (0, 0)))
    x = _replicated(run, "patches", x, batch=True)
    x = run.sharder.annotate("patches.sharded", x, ("activation_batch", "activation_length", None))
    return run.sharder.annotate("hidden", linear(params["patch_embedding"], x), HIDDEN)


def _rotary(run: Run) -> tuple[jax.Array, jax.Array]:
    tables = rotary_tables(run.grid, run.cfg.head_dim)
    tables = tuple(_replicated(run, "rotary", t, batch=False) for t in tables)
    cos, sin = (
        run.sharder.annotate("rotary.sharded", t, ("activation_length", None)) for t in tables
    )
    return cos, sin


def forward_tokens(run: Run, params: Params, inputs: tuple[jax.Array, ...]) -> jax.Array:
    """All of the network up to the patches of the noise: [B, L, patch volume * out channels].

    ``inputs``: latents [B, channels, T, Y, X], timestep [B], text [B, 512, text width] and, for
    I2V, image [B, image tokens, image width].
    """
    latents, timestep, text, *images = inputs
    cfg, cond = run.cfg, params["condition_embedder"]
    x = embed(run, params, latents.astype(cfg.dtype))
    temb, six = time_embedding(cfg, cond, timestep)
    six = run.sharder.annotate("modulation", six, ("activation_batch", None, "activation_embed"))
    text = text_embedding(cond["text_embedder"], text.astype(cfg.dtype))
    text = run.sharder.annotate("text", text, TEXT)
    image = None
    if images:
        image = image_embedding(cond["image_embedder"], images[0].astype(cfg.dtype))
        image = run.sharder.annotate("image", image, TEXT)
    conditions = (six, text, image, _rotary(run))

    def step(x: jax.Array, p: Params) -> tuple[jax.Array, None]:
        return block(run, conditions, x, p), None

    x, _ = jax.lax.scan(step, x, params["blocks"])
    mods = params["scale_shift_table"].astype(jnp.float32)[None] + temb[:, None]
    x = (layer_norm(x, cfg.eps) * (1 + mods[:, 1:]) + mods[:, :1]).astype(cfg.dtype)
    x = linear(params["proj_out"], x)
    return run.sharder.annotate("noise.patches", x, ("activation_batch", "activation_length", None))


def _finish(run: Run, x: jax.Array, batch: bool) -> jax.Array:
    x = _replicated(run, "noise.gathered", x, batch)
    return unpatchify(x[:, : run.grid.tokens], run.grid, run.cfg.patch)


def forward(run: Run, params: Params, *inputs: jax.Array) -> jax.Array:
    """diffusers' forward: latents, timestep, text [, image] -> noise [B, channels, T, Y, X]."""
    return _finish(run, forward_tokens(run, params, inputs), batch=True)


def guided_step(run: Run, guidance: float, params: Params, *inputs: jax.Array) -> jax.Array:
    """One classifier-free-guided evaluation, both halves as one batch.

    latents [b, ...] and timestep [b] are doubled here; text and image come as [2b, ...] with the
    unconditional half first. Returns noise [b, channels, T, Y, X].
    """
    latents, timestep, *cond = inputs
    x = forward_tokens(run, params, (_double(latents), _double(timestep), *cond))
    # A weighted sum over the halves, before the gather: the halves may live on different chips.
    halves = x.reshape(2, x.shape[0] // 2, *x.shape[1:]).astype(jnp.float32)
    weights = jnp.asarray([1.0 - guidance, guidance], jnp.float32)
    x = jnp.einsum("g,gblp->blp", weights, halves).astype(x.dtype)
    x = run.sharder.annotate("noise.guided", x, (None, "activation_length", None))
    return _finish(run, x, batch=False)


def _double(x: jax.Array) -> jax.Array:
    return jnp.broadcast_to(x[None], (2, *x.shape)).reshape(2 * x.shape[0], *x.shape[1:])
