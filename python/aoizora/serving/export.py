"""A plan as text for other programs: plain JAX, Flax rules, JSON."""

from __future__ import annotations

import json
import pprint
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aoizora.serving.plan import Plan

_HEAD = '''"""Mesh and axis rules of an AoiZora plan; needs no AoiZora.

{purpose}
"""
# model {model}, slice {slice}
'''

_MESH = '''
import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

MESH_AXES = {axes}
MESH_SHAPE = {shape}
# Chip coordinates of every logical position, in row-major mesh order.
DEVICE_COORDS = {coords}
ATTENTION = {attention}


def make_mesh(devices=None, coords_of=lambda d: {coords_of}):
    """The mesh, its devices matched by chip coordinates; KeyError on another slice."""
    devices = jax.devices() if devices is None else devices
    at = {{tuple(coords_of(d)): d for d in devices}}
    if len(devices) != len(DEVICE_COORDS):
        raise ValueError(f"{{len(devices)}} devices, the plan has {{len(DEVICE_COORDS)}}")
    ordered = np.empty(len(DEVICE_COORDS), dtype=object)
    ordered[:] = [at[tuple(c)] for c in DEVICE_COORDS]
    return Mesh(ordered.reshape(MESH_SHAPE), MESH_AXES)
'''

_SPEC = '''

def partition_spec(*logical):
    """The first rule of a dimension whose mesh axes the tensor has not used yet wins."""
    chosen, used = {}, set()
    for name, axes in logical_axis_rules:
        if name in logical and name not in chosen and not used & set(axes or ()):
            chosen[name] = axes
            used |= set(axes or ())
    return PartitionSpec(*(chosen.get(name) for name in logical))
'''


def _literal(value: object) -> str:
    return pprint.pformat(value, width=96, sort_dicts=False)


def _head(plan: Plan, purpose: str) -> str:
    # json.dumps: a name from a file stays within its comment, whatever is in it.
    return _HEAD.format(purpose=purpose, model=json.dumps(plan.model), slice=json.dumps(plan.slice))


def _coords_of(plan: Plan) -> str:
    """The coordinates of a device, in the form that this plan has them."""
    width = len(plan.device_coords[0])
    several = "+" in plan.slice
    parts = [f"*d.coords[:{min(width, 3)}]"]
    if width > 3 + several:
        parts.append("d.core_on_chip")
    if several:
        parts.append("d.slice_index")
    return f"({', '.join(parts)},)"


def _rules(plan: Plan) -> str:
    return f"\nlogical_axis_rules = {_literal(tuple(plan.axis_rules))}\n"


def flax(plan: Plan) -> str:
    """A Python file with ``logical_axis_rules`` for Flax, and the sizes of the mesh."""
    sizes = dict(zip(plan.mesh_axes, plan.mesh_shape, strict=True))
    purpose = "Use: with flax.linen.logical_axis_rules(logical_axis_rules): ..."
    return _head(plan, purpose) + _rules(plan) + f"\nmesh_sizes = {_literal(sizes)}\n"


def jax(plan: Plan) -> str:
    """A Python file that makes the mesh and PartitionSpecs with JAX alone."""
    body = _MESH.format(
        axes=_literal(plan.mesh_axes),
        shape=_literal(plan.mesh_shape),
        coords=_literal(plan.device_coords),
        attention=_literal(plan.attention),
        coords_of=_coords_of(plan),
    )
    return _head(plan, "Use: mesh = make_mesh().") + body + _rules(plan) + _SPEC


def as_json(plan: Plan) -> str:
    """What a program in another language needs, without the evidence."""
    return (
        json.dumps(
            {
                "slice": plan.slice,
                "model": {"name": plan.model, "options": dict(plan.model_options)},
                "key": plan.key,
                "mesh": {"axes": plan.mesh_axes, "shape": plan.mesh_shape},
                "axis_rules": plan.axis_rules,
                "attention": plan.attention,
                "device_coords": plan.device_coords,
            },
            indent=1,
        )
        + "\n"
    )


def maxdiffusion(plan: Plan) -> str:
    """Settings for MaxDiffusion's YAML."""
    return plan.maxdiffusion_yaml()


FORMATS: dict[str, Callable[[Plan], str]] = {
    "maxdiffusion": maxdiffusion,
    "flax": flax,
    "jax": jax,
    "json": as_json,
}
