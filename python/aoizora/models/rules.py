"""Axis rules on tensors of JAX: PartitionSpecs, and annotations by logical names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from aoizora.axis_rules import FALLBACK, DimAxes, Logical, Rules, mesh_axes, parse_rules
from aoizora.errors import UserError

__all__ = [
    "FALLBACK",
    "DimAxes",
    "Logical",
    "Rules",
    "Sharder",
    "mesh_axes",
    "parse_rules",
    "to_spec",
]


def to_spec(axes: DimAxes) -> PartitionSpec:
    """Mesh axes per dimension as JAX spells them."""
    return PartitionSpec(*(a[0] if len(a) == 1 else (a or None) for a in axes))


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
