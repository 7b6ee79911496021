"""A language-model prefill, a second kind of model.

``aoizora plan examples.llm_decoder:prefill --slice v5e:2x4``

Plain JAX, causal attention with fewer key heads than query heads, scanned layers, and a
vocabulary projection. Attention is left to XLA, so ``head_parallel`` is its only strategy.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from aoizora.models.rules import Sharder, parse_rules

BATCH, TOKENS, WIDTH, MLP, LAYERS, VOCABULARY = 4, 2048, 2048, 8192, 16, 32768
HEADS, KV_HEADS, HEAD_DIM = 16, 8, 128
SHAPES: dict[str, tuple[tuple[int, ...], tuple[str | None, ...]]] = {
    "q": ((LAYERS, WIDTH, HEADS * HEAD_DIM), ("layers", "embed", "heads")),
    "k": ((LAYERS, WIDTH, KV_HEADS * HEAD_DIM), ("layers", "embed", "kv_heads")),
    "v": ((LAYERS, WIDTH, KV_HEADS * HEAD_DIM), ("layers", "embed", "kv_heads")),
    "o": ((LAYERS, HEADS * HEAD_DIM, WIDTH), ("layers", "heads", "embed")),
    "up": ((LAYERS, WIDTH, MLP), ("layers", "embed", "mlp")),
    "down": ((LAYERS, MLP, WIDTH), ("layers", "mlp", "embed")),
}
TABLE = ((VOCABULARY, WIDTH), ("vocabulary", "embed"))
HIDDEN = ("activation_batch", "activation_length", None)
HEADS_AXES = ("activation_batch", None, "activation_heads", None)


def norm(x: jax.Array) -> jax.Array:
    """RMS norm over the last axis."""
    y = x.astype(jnp.float32)
    return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def attend(sharder: Sharder, p: Any, x: jax.Array) -> jax.Array:
    """Causal self-attention of x [B, L, C]; heads are the only axis that may be sharded."""
    y, (b, length, _) = norm(x), x.shape
    q, k, v = (
        sharder.annotate(n, (y @ p[n]).reshape(b, length, -1, HEAD_DIM), HEADS_AXES) for n in "qkv"
    )
    q = q.reshape(b, length, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM)
    scores = jnp.einsum("blhgd,bshd->bhgls", q, k).astype(jnp.float32) / HEAD_DIM**0.5
    causal = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), -1).astype(x.dtype)
    out = jnp.einsum("bhgls,bshd->blhgd", weights, v).reshape(b, length, -1)
    return sharder.annotate("hidden", x + out @ p["o"], HIDDEN)


def prefill(mesh: Any, axis_rules: Any, attention: str) -> tuple[Any, tuple[Any, ...]]:
    """What ``aoizora`` calls: logits of the mean hidden state of each prompt."""
    sharder = Sharder(mesh, parse_rules(axis_rules))

    def abstract(name: str, shape: tuple[int, ...], axes: Any, dtype: Any = jnp.bfloat16) -> Any:
        where = sharder.sharding(name, shape, axes)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=where)

    def layer(x: jax.Array, p: Any) -> tuple[jax.Array, None]:
        x = attend(sharder, p, x)
        x = x + jax.nn.silu(norm(x) @ p["up"]) @ p["down"]
        return sharder.annotate("hidden", x, HIDDEN), None

    def step(layers: Any, table: jax.Array, tokens: jax.Array) -> jax.Array:
        one_hot = jax.nn.one_hot(tokens, VOCABULARY, dtype=table.dtype)
        x = sharder.annotate("hidden", one_hot @ table, HIDDEN)
        x, _ = jax.lax.scan(layer, x, layers)
        return norm(x).mean(1) @ table.T

    layers = {n: abstract(n, *s) for n, s in SHAPES.items()}
    tokens = abstract("tokens", (BATCH, TOKENS), ("activation_batch", None), jnp.int32)
    return jax.jit(step), (layers, abstract("table", *TABLE), tokens)


prefill.describe = {  # type: ignore[attr-defined]
    "axes": {
        "activation_batch": [BATCH],
        "activation_heads": [KV_HEADS, HEADS],
        "activation_length": [TOKENS],
        "embed": [WIDTH],
        "heads": [HEADS * HEAD_DIM],
        "kv_heads": [KV_HEADS * HEAD_DIM],
        "mlp": [MLP],
        "vocabulary": [VOCABULARY],
    },
    "attention": {
        "strategies": ["head_parallel"],
        "heads": HEADS,
        "kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "sequence": TOKENS,
    },
    "tokens": TOKENS,
    "padded_tokens": TOKENS,
}
