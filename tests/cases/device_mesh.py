#!/usr/bin/env python3
"""What jax.make_mesh orders or refuses, slice by slice, for src/aoizora/place/baselines_test.cc.

    JAX_PLATFORMS=cpu TPU_SKIP_MDS_QUERY=1 python tests/cases/device_mesh.py [--update]

Without --update it fails when this JAX differs from the stored device_mesh.json. Devices are libtpu's own
(compile only), so kinds and coordinates are real. An order is stored as chip numbers, x fastest (with the
core, where a chip has two devices, fastest of all).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

import jax
from jax.experimental import mesh_utils, topologies

GOLDEN = pathlib.Path(__file__).with_suffix(".json")
FLAT = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
# v4 is left out: libtpu's compile-only v4 has two devices a chip, which jax.make_mesh refuses outright.
SLICES = [f"{kind}:{shape}" for kind in ("v5e", "v6e") for shape in FLAT] + [
    "v5p:2x2x2",
    "v5p:2x2x4",
    "v5p:4x4x4",
    "tpu7x:2x2x2",
    "tpu7x:2x2x4",
]


def compositions(total: int, parts: int) -> list[list[int]]:
    """Ordered factorisations of `total` into `parts` factors above 1."""
    if parts == 1:
        return [[total]] if total > 1 or parts == 0 else []
    found = []
    for first in range(2, total):
        if total % first == 0:
            found += [[first, *rest] for rest in compositions(total // first, parts - 1)]
    return found


def mesh_shapes(chips: int) -> list[list[int]]:
    if chips == 1:
        return [[1], [1, 1]]
    shapes = [shape for parts in (1, 2, 3) for shape in compositions(chips, parts)]
    if chips <= 64:
        shapes += compositions(chips, 4)
    # Axes of size 1 anywhere must change nothing but the shape.
    return (
        [*shapes, [1, *shapes[-1]], [*shapes[0], 1], [1, shapes[1][0], 1, shapes[1][1]]]
        if chips > 3
        else shapes
    )


def numbering(devices: list) -> dict:
    size = [max(d.coords[i] for d in devices) + 1 for i in range(3)]
    cores = max(d.core_on_chip for d in devices) + 1
    return {
        d: d.core_on_chip + cores * (d.coords[0] + size[0] * (d.coords[1] + size[1] * d.coords[2]))
        for d in devices
    }


def order(make, number: dict) -> dict:
    try:
        return {"order": [number[d] for d in make().flat]}
    except (NotImplementedError, ValueError, AssertionError) as error:
        return {"refused": type(error).__name__}


def made_mesh(shape: tuple, axes: tuple, devices: list):
    """The device array of jax.make_mesh."""
    return jax.make_mesh(shape, axes, devices=devices).devices


def cases() -> list[dict]:
    found = []
    for name in SLICES:
        try:
            topology = topologies.get_topology_desc(platform="tpu", topology_name=name)
        except Exception as error:  # libtpu does not have this slice: say so, do not invent it
            print(f"{name}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        devices = list(topology.devices)
        number = numbering(devices)
        for shape in mesh_shapes(len(devices)):
            axes = tuple(f"a{i}" for i in range(len(shape)))
            case = {"slice": name, "mesh": shape}
            case |= order(functools.partial(made_mesh, tuple(shape), axes, devices), number)
            if "refused" in case:
                split = order(
                    functools.partial(
                        mesh_utils.create_device_mesh,
                        shape,
                        devices,
                        allow_split_physical_axes=True,
                    ),
                    number,
                )
                case["split"] = split.get("order") or sys.exit(f"{name} {shape}: {split}")
            found.append(case)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--update", action="store_true", help="write the file instead of comparing with it"
    )
    arguments = parser.parse_args()
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases())
    text = f'{{"jax":"{jax.__version__}","cases":[\n{lines}\n]}}\n'
    if arguments.update:
        GOLDEN.write_text(text)
    elif GOLDEN.read_text() != text:
        print(
            f"{GOLDEN.name} differs from what JAX {jax.__version__} does; see --update",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
