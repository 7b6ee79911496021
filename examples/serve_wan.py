"""One denoising step of a small Wan, sharded and placed by a plan: serve_wan.py PLAN.

On a TPU slice the mesh is made of its chips; elsewhere virtual devices stand for them:
XLA_FLAGS=--xla_force_host_platform_device_count=16 JAX_PLATFORMS=cpu python serve_wan.py plan.json
For the true model take ``CONFIGS[plan.model]`` and ``wan_weights.load_safetensors``.
"""

import functools
import sys

import jax
import jax.numpy as jnp

import aoizora
from aoizora.models import wan
from aoizora.models.attention import Kernel
from aoizora.models.rules import Sharder
from aoizora.models.wan_params import Param, WanConfig, is_param, param_specs, random_params

CONFIG = WanConfig(heads=12, layers=2, mlp=512, head_dim=24, text_dim=64, text_tokens=128)
LATENT = (3, 16, 16)  # frames, rows, columns

plan = aoizora.load(sys.argv[1])
on_tpu = jax.default_backend() == "tpu"
mesh = plan.mesh(coords_of=None if on_tpu else plan.virtual_coords(jax.devices()))

sharder = Sharder(mesh, plan.rules)
context = sharder.size(sharder.axes(("activation_length",))[0])
grid = wan.make_grid(CONFIG, LATENT, context)
run = wan.Run(CONFIG, grid, sharder, Kernel.for_mesh(mesh), plan.attention)


def place(spec: Param, weight: jax.Array) -> jax.Array:
    """Each weight where the plan's rules put it."""
    return jax.device_put(weight, plan.jax_sharding(*spec.axes, mesh=mesh))


weights = jax.tree.map(place, param_specs(CONFIG), random_params(CONFIG, seed=0), is_leaf=is_param)
step = jax.jit(functools.partial(wan.guided_step, run, 5.0))
latents = jnp.ones((1, CONFIG.in_channels, *LATENT), jnp.bfloat16)
noise = step(weights, latents, jnp.ones(1), jnp.ones((2, CONFIG.text_tokens, 64), jnp.bfloat16))
print(f"{plan.attention} on {dict(mesh.shape)}: noise {noise.shape}, {jnp.abs(noise).mean():.4f}")
