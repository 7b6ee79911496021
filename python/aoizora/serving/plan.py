"""The plan as a server sees it: what to shard, and where."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aoizora.axis_rules import Rules, mesh_axes, spelled_out
from aoizora.serving import devices as matching
from aoizora.serving import reader
from aoizora.serving.errors import PlanError

if TYPE_CHECKING:
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

AxisRules = list[tuple[str, tuple[str, ...] | None]]


@dataclass(frozen=True)
class Plan:
    """A checked plan. ``load`` makes it; docs/plan-format.md describes the file.

    ``device_coords``: chip coordinates of every logical position in row-major mesh order.
    ``rules``: the plan's rules as filed; ``axis_rules`` are those to give to a model.
    ``predicted_us``: times of one step as the replay predicts them, microseconds.
    """

    slice: str
    model: str
    model_options: Mapping[str, Any]
    fingerprint: str
    key: str
    mesh_axes: tuple[str, ...]
    mesh_shape: tuple[int, ...]
    rules: Rules
    attention: str
    device_coords: tuple[matching.Coordinates, ...]
    placement: str
    predicted_us: Mapping[str, float]

    @property
    def axis_rules(self) -> AxisRules:
        """Rules in the form of Flax's ``logical_axis_rules``, borrowed names spelled out."""
        return [(logical, axes or None) for logical, axes in spelled_out(self.rules)]

    def mesh(
        self,
        devices: Sequence[Any] | None = None,
        *,
        coords_of: matching.CoordsOf | None = None,
    ) -> Mesh:
        """The mesh over these devices (default: ``jax.devices()``), matched by chip coordinates.

        ``coords_of`` maps a device to coordinates where the runtime gives none (virtual CPU
        devices). Raises PlanError where the devices are not the plan's slice, saying how they
        differ.
        """
        import jax
        import numpy as np

        given = jax.devices() if devices is None else devices
        listed = list(given.flat if isinstance(given, np.ndarray) else given)
        ordered = matching.in_plan_order(self.slice, self.device_coords, listed, coords_of)
        array = np.empty(len(ordered), dtype=object)
        array[:] = ordered
        return jax.sharding.Mesh(array.reshape(self.mesh_shape), self.mesh_axes)

    def virtual_coords(self, devices: Sequence[Any]) -> dict[Any, matching.Coordinates]:
        """``coords_of`` for devices that have no coordinates: the n-th is the slice's n-th chip.

        Chips are numbered with x fastest. It is for trials: any order would do.
        """
        chips = sorted(self.device_coords, key=lambda chip: (chip[3:], chip[2::-1]))
        return dict(zip(devices, chips, strict=False))

    def partition_spec(self, *logical_axes: str | None) -> PartitionSpec:
        """The PartitionSpec of a tensor with these logical axes."""
        from aoizora.models.rules import to_spec

        return to_spec(mesh_axes(self.rules, logical_axes))

    def jax_sharding(self, *logical_axes: str | None, mesh: Mesh) -> NamedSharding:
        """The NamedSharding of a tensor with these logical axes on ``plan.mesh(...)``."""
        from jax.sharding import NamedSharding

        if mesh.axis_names != self.mesh_axes or tuple(mesh.shape.values()) != self.mesh_shape:
            raise PlanError(
                f"mesh {dict(mesh.shape)} is not the plan's "
                f"{dict(zip(self.mesh_axes, self.mesh_shape, strict=True))}; use plan.mesh()"
            )
        return NamedSharding(mesh, self.partition_spec(*logical_axes))

    @contextlib.contextmanager
    def flax_rules(self, *unsharded: str) -> Iterator[None]:
        """Within it, Flax (Linen and NNX) reads the plan's axis rules.

        ``unsharded``: further logical axes of the model. Linen leaves an axis without a rule whole;
        NNX takes its name for a mesh axis and fails, so there each needs one.
        """
        try:
            from flax import linen
        except ImportError:
            raise ImportError("plan.flax_rules() needs Flax: pip install flax") from None
        ruled = {name for name, _ in self.axis_rules}
        whole = [(name, None) for name in unsharded if name not in ruled]
        with linen.logical_axis_rules([*self.axis_rules, *whole]):
            yield

    def maxdiffusion_yaml(self) -> str:
        """Settings for MaxDiffusion's Wan YAML (docs/serving.md says how to use them)."""
        from aoizora.serving.maxdiffusion import yaml_of

        return yaml_of(self)

    def maxdiffusion_devices(
        self,
        devices: Sequence[Any] | None = None,
        *,
        coords_of: matching.CoordsOf | None = None,
    ) -> Any:
        """What MaxDiffusion's ``create_device_mesh`` must return: its four axes, our order."""
        from aoizora.serving.maxdiffusion import device_array

        return device_array(self, self.mesh(devices, coords_of=coords_of).devices)


def load(path: str | os.PathLike[str]) -> Plan:
    """Reads and checks a plan file; PlanError (a ValueError) names the member that is wrong."""
    root = reader.read_document(path)
    axes, shape = reader.read_mesh(root)
    coords = reader.read_coords(root, math.prod(shape))
    model = root.at("model")
    options = model.at("options")
    if not isinstance(options.value, dict):
        options.fail("an object")
    predicted = root.at("predicted")
    if not isinstance(predicted.value, dict):
        predicted.fail("an object")
    return Plan(
        slice=reader.check_slice(root, coords),
        model=model.at("name").text(),
        model_options=MappingProxyType(options.value),
        fingerprint=model.at("fingerprint").text(),
        key=root.at("key").text(),
        mesh_axes=axes,
        mesh_shape=shape,
        rules=reader.read_rules(root, axes),
        attention=root.at("attention").text(),
        device_coords=coords,
        placement=root.at("placement").text(),
        predicted_us=MappingProxyType(
            {
                name.removesuffix("_us"): predicted.at(name).microseconds()
                for name in predicted.value
            }
        ),
    )
