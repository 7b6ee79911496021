"""Logical axis names -> mesh axes, with the meaning Flax gives to ``logical_axis_rules``.

A rule is ``(logical, (mesh axis, ...))``. Rules are tried in order; the first that names an
axis of the tensor and whose mesh axes that tensor has not used yet wins. A mesh axis shards at
most one dimension of a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from aoizora.errors import UserError

Rules = tuple[tuple[str, tuple[str, ...]], ...]
Logical = Sequence[str | None]
DimAxes = tuple[tuple[str, ...], ...]  # mesh axes of every dimension

# An activation name that the rules leave out borrows the rule of a broader one, so that short
# rule lists behave as people expect. MaxDiffusion spells all of them out.
FALLBACK = {
    "activation_self_attn_heads": "activation_heads",
    "activation_cross_attn_heads": "activation_heads",
    "activation_self_attn_q_length": "activation_length",
    "activation_cross_attn_q_length": "activation_length",
    "activation_self_attn_kv_length": "activation_kv_length",
    "activation_kv_length": "activation_length",
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


def _with_fallbacks(rules: Rules, logical: Logical) -> Rules:
    """Appends rules for the names of this tensor that no rule mentions."""
    named = {name for name, _ in rules}
    borrowed: list[tuple[str, tuple[str, ...]]] = []
    for name in logical:
        source = name
        while source is not None and source not in named:
            source = FALLBACK.get(source)
        if name is not None and source is not None and source != name:
            borrowed += [(name, axes) for other, axes in rules if other == source]
    return rules + tuple(borrowed)


def to_spec(axes: DimAxes) -> PartitionSpec:
    """Mesh axes per dimension as JAX spells them."""
    return PartitionSpec(*(a[0] if len(a) == 1 else (a or None) for a in axes))


def mesh_axes(rules: Rules, logical: Logical) -> DimAxes:
    """Mesh axes of every dimension of a tensor with these logical axes."""
    result: list[tuple[str, ...] | None] = [None] * len(logical)
    used: set[str] = set()
    for name, axes in _with_fallbacks(rules, logical):
        if name not in logical:
            continue
        at = list(logical).index(name)
        if result[at] is None and not used.intersection(axes):
            result[at] = axes
            used.update(axes)
    return tuple(axes or () for axes in result)


@dataclass
class Sharder:
    """Annotates tensors by logical names; with ``mesh=None`` it only records them.

    ``seen`` lists (name, shape, dtype, logical axes) of every annotated activation.
    """

    mesh: Mesh | None = None
    rules: Rules = ()
    seen: list[tuple[str, tuple[int, ...], str, tuple[str | None, ...]]] = field(
        default_factory=list
    )

    def __post_init__(self) -> None:
        if self.mesh is None:
            return
        for logical, axes in self.rules:
            for axis in axes:
                if axis not in self.mesh.axis_names:
                    raise UserError(
                        f"axis rule {logical!r} names mesh axis {axis!r}; "
                        f"the mesh has {', '.join(self.mesh.axis_names)}"
                    )

    def size(self, axes: Sequence[str]) -> int:
        """Number of shards that these mesh axes make together."""
        if self.mesh is None:
            return 1
        return math.prod(self.mesh.shape[a] for a in axes)

    def axes(self, logical: Logical) -> DimAxes:
        """Mesh axes per dimension; empty without a mesh."""
        if self.mesh is None:
            return ((),) * len(logical)
        return mesh_axes(self.rules, logical)

    def spec(self, logical: Logical) -> PartitionSpec:
        """The PartitionSpec of a tensor with these logical axes."""
        return to_spec(self.axes(logical))

    def sharding(
        self, name: str, shape: Sequence[int], logical: Logical, axes: DimAxes | None = None
    ) -> NamedSharding:
        """The NamedSharding of a tensor, refused when a dimension does not divide.

        ``axes``: mesh axes per dimension where they do not follow from the rules alone.
        """
        assert self.mesh is not None
        chosen = self.axes(logical) if axes is None else axes
        for dim, axis, parts in zip(shape, logical, chosen, strict=True):
            if dim % self.size(parts):
                raise UserError(
                    f"illegal: {axis} of {name} is {dim}, which does not divide by "
                    f"{self.size(parts)} ({'x'.join(parts)})"
                )
        return NamedSharding(self.mesh, to_spec(chosen))

    def annotate(
        self, name: str, x: jax.Array, logical: Logical, axes: DimAxes | None = None
    ) -> jax.Array:
        """Constrains activation ``x`` and records it under ``name``; ``axes`` as in sharding."""
        self.seen.append((name, tuple(x.shape), str(x.dtype), tuple(logical)))
        if self.mesh is None:
            return x
        return jax.lax.with_sharding_constraint(x, self.sharding(name, x.shape, logical, axes))
