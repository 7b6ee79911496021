"""A Wan small enough to run on a CPU in a test, and meshes to run it on."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from aoizora.models import wan
from aoizora.models.attention import Kernel
from aoizora.models.rules import Rules, Sharder, parse_rules
from aoizora.models.wan_params import Param, WanConfig, is_param, param_specs, random_params

TINY = WanConfig(
    heads=8,
    layers=2,
    mlp=32,
    head_dim=12,
    in_channels=4,
    out_channels=4,
    text_dim=16,
    text_tokens=6,
    freq_dim=16,
    dtype="float32",
    token_block=4,
    shard_block=2,
)
# 3 x 3 x 5 = 45 tokens: padded to 48 whatever the mesh, so the mask is always at work.
LATENT = (3, 6, 10)
RULES = parse_rules(
    [
        ["activation_batch", ["data"]],
        ["activation_length", ["context"]],
        ["activation_heads", ["tensor"]],
        ["heads", ["tensor"]],
        ["mlp", ["tensor"]],
        ["norm", ["tensor"]],
    ]
)


def make_mesh(**axes: int) -> Mesh:
    """A mesh over the first virtual devices."""
    devices = np.array(jax.devices()[: math.prod(axes.values())])
    return Mesh(devices.reshape(tuple(axes.values())), tuple(axes))


def make_run(
    cfg: WanConfig,
    mesh: Mesh | None = None,
    attention: str = "all_gather_kv",
    *,
    rules: Rules = RULES,
    latent: tuple[int, int, int] = LATENT,
) -> wan.Run:
    """What the layers need, on this mesh."""
    sharder = Sharder(mesh, rules)
    (length,) = sharder.axes(("activation_length",))
    grid = wan.make_grid(cfg, latent, sharder.size(length))
    return wan.Run(cfg, grid, sharder, Kernel(flash=False), attention)


def make_inputs(cfg: WanConfig, batch: int = 2, latent: tuple[int, int, int] = LATENT) -> list[Any]:
    """Random latents, timestep, text and, for I2V, image."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    inputs = [
        normal(batch, cfg.in_channels, *latent),
        jnp.asarray(np.linspace(3.0, 900.0, batch), jnp.float32),
        normal(batch, cfg.text_tokens, cfg.text_dim),
    ]
    if cfg.image_dim is not None:
        inputs.append(normal(batch, cfg.image_tokens, cfg.image_dim))
    return inputs


@functools.cache
def tiny_params(cfg: WanConfig) -> Any:
    """The same random weights for every mesh."""
    return random_params(cfg, seed=3)


@functools.cache
def unsharded(cfg: WanConfig) -> Any:
    """Output of the unsharded model, the truth for all meshes."""
    run = make_run(cfg)
    return jax.jit(functools.partial(wan.forward, run))(tiny_params(cfg), *make_inputs(cfg))


def sharded(cfg: WanConfig, mesh: Mesh, attention: str, rules: Rules = RULES) -> jax.Array:
    """The model on a mesh, its parameters placed as the rules say."""
    run = make_run(cfg, mesh, attention, rules=rules)

    def place(p: Param, x: jax.Array) -> jax.Array:
        return jax.device_put(x, run.sharder.sharding("parameter", p.shape, p.axes))

    params = jax.tree.map(place, param_specs(cfg), tiny_params(cfg), is_leaf=is_param)
    out: jax.Array = jax.jit(functools.partial(wan.forward, run))(params, *make_inputs(cfg))
    return out
