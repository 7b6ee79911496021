"""Measures isolated collectives and fits the testbed's own constants (links-profile.json) to them.

    python -m study.calibrate points.csv     then    aoizora calibrate points.csv --profile ... (printed)

None of these collectives is a test program, and no program of the study is used here.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
import tempfile
from pathlib import Path

from study.harness import PROFILE, Testbed

# (kind, slice, mesh, axis, bytes): one collective over one axis of a row-major mesh.
POINTS = [
    (kind, slice_, mesh, axis, size)
    for slice_, meshes in {
        "v5e:2x4": [({"a": 4, "b": 2}, "a"), ({"a": 4, "b": 2}, "b"), ({"a": 8}, "a")],
        "v5e:16x1": [({"a": 16}, "a"), ({"a": 4, "b": 4}, "b")],
    }.items()
    for mesh, axis in meshes
    for kind in ("all-gather", "all-reduce", "all-to-all")
    for size in (2_000, 40_000, 400_000, 1_600_000)
]


def groups(mesh: dict[str, int], axis: str) -> list[list[int]]:
    """Groups along an axis, positions row-major (the last axis fastest)."""
    names = list(mesh)
    strides = {}
    stride = 1
    for name in reversed(names):
        strides[name] = stride
        stride *= mesh[name]
    firsts = [p for p in range(stride) if p // strides[axis] % mesh[axis] == 0]
    return [[p + i * strides[axis] for i in range(mesh[axis])] for p in firsts]


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for slice_ in sorted({point[1] for point in POINTS}):
            points = [point for point in POINTS if point[1] == slice_]
            programs = []
            for i, (kind, _, mesh, axis, size) in enumerate(points):
                made = groups(mesh, axis)
                program = {
                    "name": f"{kind} {size}",
                    "slice": slice_,
                    "source": "calibration",
                    "partitions": sum(map(len, made)),
                    "collectives": [{"name": kind, "kind": kind, "bytes": size, "groups": made}],
                    "actions": [["start", 0], ["done", 0]],
                }
                file = Path(folder) / f"{slice_}-{i}.json"
                file.write_text(json.dumps(program))
                chips = list(range(program["partitions"]))
                programs.append({"file": str(file), "placements": [chips]})
            with Testbed(
                {"slice": slice_, "profile": str(PROFILE), "programs": programs}
            ) as testbed:
                for i, (kind, _, mesh, axis, size) in enumerate(points):
                    testbed.run(i, 0)
                    times = [testbed.run(i, 0)["micros"] for _ in range(5)]
                    text = ";".join(f"{name}={n}" for name, n in mesh.items())
                    name = f"{kind} {size} over {axis} of {text}"
                    time = round(statistics.median(times), 1)
                    rows.append([name, kind, slice_, text, axis, size, time])
    writer = csv.writer(sys.stdout)
    writer.writerow(["name", "kind", "slice", "mesh", "axis", "bytes", "time_us"])
    writer.writerows(rows)


if __name__ == "__main__":
    main()
