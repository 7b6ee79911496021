"""Plan files made by hand, stand-ins for TPU devices, and the tensors of Wan."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import random
from typing import Any

from jax.sharding import PartitionSpec

import aoizora
from aoizora.models import attention
from aoizora.serving import Plan

ROOT = pathlib.Path(__file__).parents[2]
RULES = [
    ["activation_batch", ["data"]],
    ["activation_length", ["context"]],
    ["activation_heads", ["tensor"]],
    ["heads", ["tensor"]],
    ["mlp", ["tensor"]],
    ["norm", ["tensor"]],
]


def document(
    slice_name: str = "v5e:4x4",
    mesh: dict[str, int] | None = None,
    *,
    rules: Any = None,
    attention: str = "all_gather_kv",
    seed: int = 5,
) -> dict[str, Any]:
    """A plan with a shuffled device order, with the members that the format requires."""
    mesh = mesh or {"data": 2, "context": 4, "tensor": 2}
    columns, rows = (int(n) for n in slice_name.partition(":")[2].split("x")[:2])
    coords = [[x, y, 0] for y in range(rows) for x in range(columns)]
    random.Random(seed).shuffle(coords)
    return {
        "format": "aoizora.plan",
        "version": 1,
        "slice": slice_name,
        "model": {"name": "wan2.1-t2v-1.3b", "options": {"frames": 81}, "fingerprint": "ab" * 32},
        "key": "cd" * 32,
        "mesh": {"axes": list(mesh), "shape": list(mesh.values())},
        "axis_rules": RULES if rules is None else rules,
        "attention": attention,
        "device_coords": coords,
        "placement": "search",
        "predicted": {"step_us": 1000.5, "compute_us": 900, "exposed_comm_us": 100.5},
        "runner_up": None,
        "margin": 0.0,
        "ties": [],
        "by_assumption": [],
        "lower_bound_us": 950.0,
        "gap": 0.05,
        "memory_per_chip": dict.fromkeys(
            ("argument_bytes", "output_bytes", "temp_bytes", "alias_bytes", "code_bytes"), 1
        ),
        "refusals": [],
        "baselines": [],
        "candidates": [],
        "notes": [],
        "evidence": {},
    }


def load(tmp_path: pathlib.Path, text: Any) -> Plan:
    """Through a file, as people do."""
    path = tmp_path / "plan.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return aoizora.load(path)


@dataclasses.dataclass(frozen=True)
class Chip:
    """What a TPU device of JAX says of itself."""

    id: int
    coords: tuple[int, ...]
    core_on_chip: int = 0
    slice_index: int = 0
    device_kind: str = "TPU v5 lite"
    platform: str = "tpu"


def chips(columns: int, rows: int, **more: Any) -> list[Chip]:
    """A slice whose ids are in no order of the coordinates."""
    ids = list(range(columns * rows))
    random.Random(1).shuffle(ids)
    at = itertools.product(range(columns), range(rows))
    return [Chip(i, (x, y, 0), **more) for i, (x, y) in zip(ids, at, strict=True)]


WAN_TENSORS = [
    attention.SELF_Q,
    attention.SELF_KV,
    attention.CROSS_Q,
    attention.CROSS_KV,
    ("activation_batch", "activation_length", "activation_mlp"),
    ("activation_batch", "activation_length", "activation_heads", "activation_kv"),
    ("embed", "mlp"),
    ("embed", "heads"),
    ("norm",),
    (None, "activation_length", None),
]


def parts(spec: PartitionSpec) -> list[tuple[str, ...] | None]:
    """Mesh axes by dimension: JAX writes one axis as a name, rules write a tuple."""
    return [(a,) if isinstance(a, str) else (a or None) for a in spec]


def environment() -> dict[str, str]:
    """For a process that imports the package these tests import."""
    return {**os.environ, "PYTHONPATH": str(pathlib.Path(aoizora.__file__).parents[1])}
