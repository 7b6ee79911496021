"""Attention over a sharded sequence: how keys and values meet queries.

Every strategy runs inside one ``shard_map`` and ends in the same local kernel: the Pallas flash
kernel for TPU, plain ``jnp`` elsewhere. Shapes: B batch, L query length, S key length, H heads,
D head dimension; queries, keys and values enter as [B, L or S, H, D].

| strategy      | moves                                                                     |
|---------------|---------------------------------------------------------------------------|
| all_gather_kv | k and v gathered along the context axes, queries stay                     |
| ulysses       | all-to-all: heads are split further, the sequence becomes whole           |
| ring          | k and v shift around the context axes, softmax merged online              |
| usp           | ulysses on the second of two context axes, ring on the first              |
| head_parallel | nothing: heads are the only split, the sequence is whole on every chip    |
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas.ops.tpu.flash_attention import (
    BlockSizes,
    SegmentIds,
    flash_attention,
)
from jax.sharding import Mesh, PartitionSpec

from aoizora import jaxapi
from aoizora.errors import UserError
from aoizora.models.rules import DimAxes, Logical, Sharder, to_spec

STRATEGIES = ("all_gather_kv", "ulysses", "ring", "usp", "head_parallel")
# What a candidate must fulfil, for people; layout_for and check_heads below enforce it. "heads per
# chip" is heads / (mesh axes of activation_self_attn_heads), "context" those of activation_length.
LEGALITY = {
    "all_gather_kv": "heads divide by their mesh axes",
    "ulysses": "heads per chip divide by context",
    "ring": "heads divide by their mesh axes",
    "usp": "activation_length is on two mesh axes [ring, ulysses]; "
    "heads per chip divide by the second",
    "head_parallel": "context is 1",
}
LANES = 128  # the flash kernel works on blocks of 128 keys
MAX_BLOCK = 1024
SELF_Q = (
    "activation_batch",
    "activation_self_attn_q_length",
    "activation_self_attn_heads",
    "activation_kv",
)
SELF_KV = (
    "activation_batch",
    "activation_self_attn_kv_length",
    "activation_self_attn_heads",
    "activation_kv",
)
CROSS_Q = (
    "activation_batch",
    "activation_cross_attn_q_length",
    "activation_cross_attn_heads",
    "activation_kv",
)
CROSS_KV = (
    "activation_batch",
    "activation_cross_attn_kv_length",
    "activation_cross_attn_heads",
    "activation_kv",
)

Axes = tuple[str, ...]
Local = tuple[jax.Array, jax.Array, jax.Array]


@dataclass(frozen=True)
class Kernel:
    """The local attention: ``flash`` (Pallas, TPU) or ``reference`` (jnp, anywhere)."""

    flash: bool

    @classmethod
    def for_mesh(cls, mesh: Mesh) -> Kernel:
        """Flash on a mesh of TPUs, compile-only ones included."""
        return cls(flash=mesh.devices.flat[0].platform == "tpu")

    def block(self, length: int) -> int:
        """Largest key block, a multiple of 128 up to 1024, that divides ``length``."""
        return max(b for b in range(LANES, MAX_BLOCK + 1, LANES) if length % b == 0)

    def query_block(self, length: int) -> int:
        """Query block with the least padding; among equals the largest."""
        blocks = range(LANES, min(MAX_BLOCK, -(-length // LANES) * LANES) + 1, LANES)
        return min(blocks, key=lambda b: (-(-length // b) * b, -b)) if length > LANES else length

    def blocks(self, q: jax.Array, k: jax.Array) -> BlockSizes:
        """Block sizes for local [B, H, L, D] queries and [B, H, S, D] keys."""
        block_k = self.block(k.shape[2])
        return BlockSizes(self.query_block(q.shape[2]), block_k, block_k, 1)

    def segments(self, q: jax.Array, valid: jax.Array | None) -> SegmentIds | None:
        """Queries are all in segment 1; a padded key is in segment 0, which none may see."""
        if valid is None:
            return None
        batch, length = q.shape[0], q.shape[2]
        keys = jnp.broadcast_to(valid.astype(jnp.int32), (batch, valid.shape[0]))
        return SegmentIds(jnp.ones((batch, length), jnp.int32), keys)

    def __call__(
        self, q: jax.Array, k: jax.Array, v: jax.Array, valid: jax.Array | None
    ) -> jax.Array:
        """softmax(q k^T / sqrt(D)) v for [B, H, L, D]; ``valid`` [S] marks the true keys."""
        scale = 1.0 / math.sqrt(q.shape[-1])
        if not self.flash:
            return reference(q, k, v, valid, scale)[0]
        return flash_attention(
            q,
            k,
            v,
            segment_ids=self.segments(q, valid),
            sm_scale=scale,
            block_sizes=self.blocks(q, k),
        )

    def partial(self, q: jax.Array, k: jax.Array, v: jax.Array, valid: jax.Array | None) -> Local:
        """As a call, and the softmax's sum and maximum [B, H, L] (float32) for merging."""
        scale = 1.0 / math.sqrt(q.shape[-1])
        if not self.flash:
            return reference(q, k, v, valid, scale)
        out, l_sum, m_max = jaxapi.flash_with_residuals(
            q, k, v, self.segments(q, valid), scale=scale, blocks=self.blocks(q, k)
        )
        return out, l_sum, m_max


def reference(
    q: jax.Array, k: jax.Array, v: jax.Array, valid: jax.Array | None, scale: float
) -> Local:
    """Plain attention on [B, H, L, D] with float32 softmax; returns out, sum, maximum."""
    scores = jnp.einsum("bhld,bhsd->bhls", q, k, preferred_element_type=jnp.float32) * scale
    if valid is not None:
        # Large and finite, as in the flash kernel: a chunk of padding only must not give NaN.
        scores = jnp.where(valid[None, None, None, :], scores, -0.7 * jnp.finfo(jnp.float32).max)
    m_max = scores.max(-1)
    weights = jnp.exp(scores - m_max[..., None])
    l_sum = weights.sum(-1)
    out = jnp.einsum(
        "bhls,bhsd->bhld", weights.astype(v.dtype), v, preferred_element_type=jnp.float32
    )
    return (out / l_sum[..., None]).astype(q.dtype), l_sum, m_max


def _merge(state: Local, step: Local) -> Local:
    """Merges two partial softmaxes; ``state`` holds an unnormalised float32 sum."""
    acc, l_sum, m_max = state
    out, l_new, m_new = step
    m_all = jnp.maximum(m_max, m_new)
    old, new = jnp.exp(m_max - m_all), jnp.exp(m_new - m_all) * l_new
    acc = acc * old[..., None] + out.astype(jnp.float32) * new[..., None]
    return acc, l_sum * old + new, m_all


@dataclass(frozen=True)
class Layout:
    """Which mesh axes split the sequence, and how many tokens are true.

    ``tokens``: true tokens among ``length`` padded ones. ``ring`` and ``ulysses``: mesh axes.
    """

    mesh: Mesh
    tokens: int
    length: int
    ring: Axes = ()
    ulysses: Axes = ()

    def size(self, axes: Axes) -> int:
        """Number of shards along these mesh axes."""
        return math.prod(self.mesh.shape[a] for a in axes)

    def valid(self, start: jax.Array | int, length: int) -> jax.Array | None:
        """Marks the true keys among ``length`` ones from position ``start``."""
        if self.tokens == self.length:
            return None
        return (jnp.arange(length, dtype=jnp.int32) + start) < self.tokens


def _gathered(
    layout: Layout, kernel: Kernel, q: jax.Array, k: jax.Array, v: jax.Array
) -> jax.Array:
    """Keys and values of all shards are gathered; [B, H, L local, D] each."""
    if layout.size(layout.ring) > 1:
        k = lax.all_gather(k, layout.ring, axis=2, tiled=True)
        v = lax.all_gather(v, layout.ring, axis=2, tiled=True)
    return kernel(q, k, v, layout.valid(0, k.shape[2]))


def _ringed(layout: Layout, kernel: Kernel, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Keys and values travel the ring; the last step needs no send, so it stands apart."""
    shards = layout.size(layout.ring)
    if shards == 1:
        return kernel(q, k, v, layout.valid(0, k.shape[2]))
    chunk = k.shape[2]
    shift = [(i, (i + 1) % shards) for i in range(shards)]
    me = lax.axis_index(layout.ring) if layout.tokens != layout.length else jnp.int32(0)

    def local(step: jax.Array | int, k: jax.Array, v: jax.Array) -> Local:
        start = lax.rem(me - step + shards, jnp.int32(shards)) * chunk
        return kernel.partial(q, k, v, layout.valid(start, chunk))

    def body(
        carry: tuple[Local, jax.Array, jax.Array], step: jax.Array
    ) -> tuple[tuple[Local, jax.Array, jax.Array], None]:
        state, k, v = carry
        # The sends stand first: they can be in flight while this chunk is computed.
        k_next, v_next = (lax.ppermute(x, layout.ring, shift) for x in (k, v))
        return (_merge(state, local(step, k, v)), k_next, v_next), None

    rows = q.shape[:3]
    state = (
        jnp.zeros(q.shape, jnp.float32),
        jnp.zeros(rows, jnp.float32),
        jnp.full(rows, jnp.finfo(jnp.float32).min, jnp.float32),
    )
    steps = jnp.arange(shards - 1, dtype=jnp.int32)
    (state, k, v), _ = lax.scan(body, (state, k, v), steps)
    acc, l_sum, _ = _merge(state, local(shards - 1, k, v))
    return (acc / l_sum[..., None]).astype(q.dtype)


def _local(layout: Layout, kernel: Kernel, ring: bool, *qkv: jax.Array) -> jax.Array:
    """Body of the shard_map: local q, k, v [B, L, H, D] -> [B, L, H, D]."""
    if layout.size(layout.ulysses) > 1:
        # Heads are split further and the sequence of this axis becomes whole.
        split = functools.partial(
            lax.all_to_all, axis_name=layout.ulysses, split_axis=2, concat_axis=1, tiled=True
        )
        qkv = tuple(split(x) for x in qkv)
    q, k, v = (x.swapaxes(1, 2) for x in qkv)
    out = (_ringed if ring else _gathered)(layout, kernel, q, k, v).swapaxes(1, 2)
    if layout.size(layout.ulysses) > 1:
        out = lax.all_to_all(out, layout.ulysses, split_axis=1, concat_axis=2, tiled=True)
    return out


def layout_for(strategy: str, base: Layout, q_axes: Axes, kv_axes: Axes) -> Layout:
    """Decides which context axes a strategy uses in which way, or says why it can't."""
    if strategy == "all_gather_kv":
        return replace(base, ring=kv_axes)
    if strategy == "head_parallel":
        if base.size(q_axes + kv_axes) > 1:
            raise UserError("illegal: head_parallel needs a sequence that is not sharded")
        return base
    if q_axes != kv_axes:
        raise UserError(
            f"illegal: {strategy} needs queries and keys sharded alike, "
            f"not {list(q_axes)} and {list(kv_axes)}"
        )
    if strategy == "ulysses":
        return replace(base, ulysses=q_axes)
    if strategy == "ring":
        return replace(base, ring=q_axes)
    if strategy == "usp":
        if len(q_axes) != 2:
            raise UserError(
                "illegal: usp needs activation_length on two mesh axes [ring, ulysses], "
                f"not {list(q_axes)}"
            )
        return replace(base, ring=q_axes[:1], ulysses=q_axes[1:])
    raise UserError(f"unknown attention {strategy!r}; known: {', '.join(STRATEGIES)}")


def check_heads(heads: int, tensor: int, ulysses: int) -> None:
    """Refuses head counts that the mesh does not divide."""
    if heads % tensor:
        raise UserError(f"illegal: {heads} heads do not divide by {tensor}")
    if (heads // tensor) % ulysses:
        raise UserError(
            f"illegal: {heads // tensor} heads per chip do not divide by ulysses degree {ulysses}"
        )


def operand_axes(sharder: Sharder, q: Logical, kv: Logical) -> tuple[DimAxes, DimAxes]:
    """Mesh axes of queries and of keys and values.

    A kernel sees the same samples and heads on both sides, so those of the queries decide; keys
    keep only the sequence axes that do not collide with them (with MaxDiffusion's rules the
    queries of cross-attention are split by length where the keys would be by heads).
    """
    q_axes, kv_axes = sharder.axes(q), sharder.axes(kv)
    if sharder.size(q_axes[3]) > 1:
        raise UserError("illegal: activation_kv, the head dimension, can't be sharded")
    taken = q_axes[0] + q_axes[2]
    length = tuple(a for a in kv_axes[1] if a not in taken)
    return q_axes, (q_axes[0], length, q_axes[2], ())


def self_attention(
    sharder: Sharder, kernel: Kernel, strategy: str, tokens: int, qkv: Local
) -> jax.Array:
    """Attention of a padded sequence to itself.

    q, k, v are [B, L, H, D]; the first ``tokens`` <= L are true, later keys are masked.
    """
    q_axes, kv_axes = operand_axes(sharder, SELF_Q, SELF_KV)
    q = sharder.annotate("self_attn.q", qkv[0], SELF_Q, q_axes)
    k = sharder.annotate("self_attn.k", qkv[1], SELF_KV, kv_axes)
    v = sharder.annotate("self_attn.v", qkv[2], SELF_KV, kv_axes)
    if sharder.mesh is None:
        return _whole(kernel, tokens, q, k, v)
    base = Layout(sharder.mesh, tokens, k.shape[1])
    layout = layout_for(strategy, base, q_axes[1], kv_axes[1])
    check_heads(q.shape[2], sharder.size(q_axes[2]), layout.size(layout.ulysses))
    body = functools.partial(_local, layout, kernel, strategy in ("ring", "usp"))
    return _mapped(sharder.mesh, body, to_spec(q_axes), to_spec(kv_axes))(q, k, v)


def cross_attention(sharder: Sharder, kernel: Kernel, name: str, qkv: Local) -> jax.Array:
    """Attention of q [B, L, H, D] to the few keys and values [B, S, H, D] of ``name``.

    Keys are padded to a multiple of 128 for the flash kernel and the padding is masked.
    """
    q, k, v = qkv
    tokens = k.shape[1]
    if kernel.flash and tokens % LANES:
        k, v = (jnp.pad(x, ((0, 0), (0, -tokens % LANES), (0, 0), (0, 0))) for x in (k, v))
    q_axes, kv_axes = operand_axes(sharder, CROSS_Q, CROSS_KV)
    q = sharder.annotate("cross_attn.q", q, CROSS_Q, q_axes)
    k = sharder.annotate(f"cross_attn.k_{name}", k, CROSS_KV, kv_axes)
    v = sharder.annotate(f"cross_attn.v_{name}", v, CROSS_KV, kv_axes)
    if sharder.mesh is None:
        return _whole(kernel, tokens, q, k, v)
    layout = Layout(sharder.mesh, tokens, k.shape[1], ring=kv_axes[1])
    body = functools.partial(_local, layout, kernel, False)
    return _mapped(sharder.mesh, body, to_spec(q_axes), to_spec(kv_axes))(q, k, v)


def _whole(kernel: Kernel, tokens: int, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """The unsharded program, which every strategy must equal."""
    valid = None if tokens == k.shape[1] else jnp.arange(k.shape[1]) < tokens
    return kernel(q.swapaxes(1, 2), k.swapaxes(1, 2), v.swapaxes(1, 2), valid).swapaxes(1, 2)


def _mapped(
    mesh: Mesh,
    body: Callable[..., jax.Array],
    q_spec: PartitionSpec,
    kv_spec: PartitionSpec,
) -> Callable[..., jax.Array]:
    """shard_map of ``body`` over the whole mesh."""
    mapped: Callable[..., jax.Array] = jax.shard_map(
        body, mesh=mesh, in_specs=(q_spec, kv_spec, kv_spec), out_specs=q_spec, check_vma=False
    )
    return mapped
