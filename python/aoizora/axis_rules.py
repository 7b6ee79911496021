"""Logical axis names -> mesh axes, with the meaning Flax gives to ``logical_axis_rules``.

A rule is ``(logical, (mesh axis, ...))``. Rules are tried in order; the first that names an
axis of the tensor and whose mesh axes that tensor has not used yet wins. A mesh axis shards at
most one dimension of a tensor. Nothing here needs JAX: a plan's rules are read without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aoizora.errors import UserError

Rules = tuple[tuple[str, tuple[str, ...]], ...]
Logical = Sequence[str | None]
DimAxes = tuple[tuple[str, ...], ...]  # mesh axes of every dimension

# An activation name that the rules leave out borrows the rule of a broader one, so that short
# rule lists behave as people expect. MaxDiffusion spells all of them out. Lengths stand before
# heads, as in the tensors: where both want one mesh axis, the first of them gets it.
FALLBACK = {
    "activation_self_attn_q_length": "activation_length",
    "activation_cross_attn_q_length": "activation_length",
    "activation_self_attn_kv_length": "activation_kv_length",
    "activation_kv_length": "activation_length",
    "activation_self_attn_heads": "activation_heads",
    "activation_cross_attn_heads": "activation_heads",
    "activation_mlp": "mlp",
}


def parse_rules(raw: Iterable[Any]) -> Rules:
    """Checks rules as they come from JSON: ``[[logical, [axes] | axis | null], ...]``."""
    rules: list[tuple[str, tuple[str, ...]]] = []
    for entry in raw:
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            raise UserError(f"axis rule {entry!r} is not a pair [logical axis, [mesh axes]]")
        logical, axes = entry
        axes = () if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
        if not isinstance(logical, str) or not all(isinstance(a, str) for a in axes):
            raise UserError(f"axis rule {entry!r} must hold names only")
        rules.append((logical, axes))
    return tuple(rules)


def spelled_out(rules: Rules) -> Rules:
    """The rules with a borrowed one for every name of FALLBACK that they leave out.

    Flax knows no borrowing: given these, it shards as ``mesh_axes`` does given the short ones.
    """
    named = {name for name, _ in rules}
    borrowed: list[tuple[str, tuple[str, ...]]] = []
    for name in FALLBACK:
        source: str | None = name
        while source is not None and source not in named:
            source = FALLBACK.get(source)
        if source is not None and source != name:
            borrowed += [(name, axes) for other, axes in rules if other == source]
    return rules + tuple(borrowed)


def mesh_axes(rules: Rules, logical: Logical) -> DimAxes:
    """Mesh axes of every dimension of a tensor with these logical axes."""
    result: list[tuple[str, ...] | None] = [None] * len(logical)
    used: set[str] = set()
    for name, axes in spelled_out(rules):
        if name not in logical:
            continue
        at = list(logical).index(name)
        if result[at] is None and not used.intersection(axes):
            result[at] = axes
            used.update(axes)
    return tuple(axes or () for axes in result)
