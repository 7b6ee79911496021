"""Finds operations that Shardy's global-to-local conversion gets wrong or dies of.

Checked after explicit reshards and before local shapes: shardings are final, shapes global.
tests/python/test_shardy.py runs local programs on 8 CPU devices: what is listed here gave wrong
numbers (reverse, pad, convolution: no halo is exchanged) or aborted the process (windows, sizes
that do not divide); reductions, sorts, gathers, concatenations and loops came out right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from aoizora.jaxapi import ShardedOp


def _padded(op: ShardedOp) -> list[int]:
    amounts = [op.integers(f"edge_padding_{end}") for end in ("low", "high")]
    amounts.append(op.integers("interior_padding"))
    return [d for d in range(len(op.shape)) if any(a[d] for a in amounts)]


def _windowed(op: ShardedOp) -> list[int]:
    return [d for d, size in enumerate(op.integers("window_dimensions")) if size != 1]


def _spatial(op: ShardedOp) -> list[int]:
    # Which dimensions are spatial is inside an opaque attribute; no sharded one is trusted but
    # the first, the batch as JAX lays it out.
    return list(range(1, len(op.shape)))


# Operation -> the dimensions along which it needs its neighbours' elements.
NEEDS_NEIGHBOURS: dict[str, Callable[[ShardedOp], Iterable[int]]] = {
    "stablehlo.reverse": lambda op: op.integers("dimensions"),
    "stablehlo.pad": _padded,
    "stablehlo.convolution": _spatial,
    "stablehlo.reduce_window": _windowed,
    "stablehlo.select_and_scatter": _windowed,
}


def find_problems(ops: Iterable[ShardedOp]) -> list[str]:
    """One line per operation that can't be trusted; empty when all can."""
    problems: list[str] = []
    for op in ops:
        for d, (size, shards) in enumerate(zip(op.shape, op.shards, strict=True)):
            if size % shards:
                problems.append(
                    f"{op.name} has {size} along dimension {d}, "
                    f"which does not divide by its {shards} shards"
                )
        needs = NEEDS_NEIGHBOURS.get(op.name)
        if needs is None:
            continue
        for d in needs(op):
            if op.shards[d] > 1:
                problems.append(f"{op.name} along dimension {d}, which has {op.shards[d]} shards")
    return problems
