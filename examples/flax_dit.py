"""A Flax NNX transformer as a model to plan: ``aoizora plan examples.flax_dit:make_step``.

Shows the contract of ``package.module:function``: given a mesh, axis rules and an attention
strategy, return a jitted function and its abstract arguments, sharded as the rules say. Logical
names stand on the NNX variables, as in any Flax model; activations are named with ``Sharder``.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from aoizora.models.attention import STRATEGIES, Kernel, self_attention
from aoizora.models.rules import Sharder, parse_rules

BATCH, TOKENS, WIDTH, HEADS, MLP, LAYERS = 2, 4096, 1024, 8, 4096, 4
NAMES = ("embed", "heads", "mlp")  # logical axes of the variables below


def dense(n_in: int, n_out: int, axes: tuple[str, str], rngs: nnx.Rngs) -> nnx.Linear:
    """A bias-free bfloat16 linear layer with logical axes."""
    init = nnx.with_partitioning(nnx.initializers.lecun_normal(), axes)
    return nnx.Linear(
        n_in, n_out, use_bias=False, kernel_init=init, param_dtype=jnp.bfloat16, rngs=rngs
    )


class Block(nnx.Module):
    """Self-attention and MLP, pre-norm."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.qkv = nnx.List([dense(WIDTH, WIDTH, ("embed", "heads"), rngs) for _ in range(3)])
        self.out = dense(WIDTH, WIDTH, ("heads", "embed"), rngs)
        self.up = dense(WIDTH, MLP, ("embed", "mlp"), rngs)
        self.down = dense(MLP, WIDTH, ("mlp", "embed"), rngs)

    def __call__(self, x: jax.Array, sharder: Sharder, kernel: Kernel, strategy: str) -> jax.Array:
        """[B, L, C] -> [B, L, C]."""
        y = x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)
        q, k, v = (p(y).reshape(*y.shape[:2], HEADS, -1) for p in self.qkv)
        y = self_attention(sharder, kernel, strategy, y.shape[1], (q, k, v)).reshape(x.shape)
        x = x + self.out(y)
        x = sharder.annotate("hidden", x, ("activation_batch", "activation_length", None))
        return x + self.down(jax.nn.gelu(self.up(x)))


class Transformer(nnx.Module):
    """A stack of blocks."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])


def make_step(mesh: Any, axis_rules: Any, attention: str) -> tuple[Any, tuple[Any, ...]]:
    """What ``aoizora`` calls: (jitted function, abstract arguments)."""
    sharder = Sharder(mesh, parse_rules(axis_rules))
    kernel = Kernel.for_mesh(mesh)
    known = {name for name, _ in axis_rules}
    # Flax takes a name without a rule for a mesh axis, so every name gets a rule.
    rules = [*axis_rules, *((name, None) for name in NAMES if name not in known)]
    with nnx.logical_axis_rules(rules):
        graph, state = nnx.get_abstract_model(lambda: Transformer(nnx.Rngs(0)), mesh)

    def step(state: Any, x: jax.Array) -> jax.Array:
        for block in nnx.merge(graph, state).blocks:
            x = block(x, sharder, kernel, attention)
        return x

    shape, axes = (BATCH, TOKENS, WIDTH), ("activation_batch", "activation_length", None)
    where = sharder.sharding("x", shape, axes)
    x = jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=where)
    return jax.jit(step, out_shardings=where), (state, x)


# Optional: lets the enumeration check divisibility before anything is traced.
make_step.describe = {  # type: ignore[attr-defined]
    "axes": {
        "activation_batch": [BATCH],
        "activation_length": [TOKENS],
        "activation_heads": [HEADS],
        "activation_kv_length": [TOKENS],
        "embed": [WIDTH],
        "heads": [WIDTH],
        "mlp": [MLP],
    },
    "attention": {
        "strategies": list(STRATEGIES),
        "heads": HEADS,
        "kv_heads": HEADS,
        "head_dim": WIDTH // HEADS,
        "sequence": TOKENS,
    },
    "tokens": TOKENS,
    "padded_tokens": TOKENS,
}
