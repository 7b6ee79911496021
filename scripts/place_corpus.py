#!/usr/bin/env python3
"""Compiles the Wan steps that docs/placement.md reports on, ahead of time: NAME.hlo.xz each.

    JAX_PLATFORMS=cpu TPU_SKIP_MDS_QUERY=1 ALLOW_MULTIPLE_LIBTPU_LOAD=1 \\
        python scripts/place_corpus.py OUT [NAME..]

A name says it all: `1.3b-v5e-2x4-d1c4t2-gather` is Wan 2.1 1.3B on v5e:2x4, mesh data=1, context=4,
tensor=2, all-gather attention, row-major devices. Needs aoizora, jax and libtpu installed; 15 to 60 s and
below 1 GB a program, one at a time. What exists already is kept, so scripts/schedule_corpus.py's OUT will
do. Prints each name's line for the referees: slice, mesh, file.
"""

from __future__ import annotations

import lzma
import os
import pathlib
import re
import resource
import subprocess
import sys

from schedule_corpus import RULES

EIGHT = (
    "1.3b-v5e-2x4-d1c4t2-gather",
    "1.3b-v5e-2x4-d1c2t4-gather",
    "1.3b-v5e-2x4-d2c4t1-gather",
    "1.3b-v5e-2x4-d2c2t2-gather",
    "1.3b-v5e-2x4-d1c8t1-gather",
    "1.3b-v5e-2x4-d2c4t1-ulysses",
    "1.3b-v5e-2x4-d2c2t2-ulysses",
    "1.3b-v5e-2x4-d1c4t2-ring",
    "1.3b-v5e-2x4-d2c4t1-ring",
    "14b-v5e-2x4-d1c2t4-gather",
    "14b-v5e-2x4-d1c2t4-ulysses",
    "14b-v6e-2x4-d2c1t4-gather",
)
SIXTEEN = (
    "1.3b-v5e-4x4-d1c4t4-gather",
    "1.3b-v5e-4x4-d1c16t1-gather",
    "1.3b-v5e-4x4-d2c2t4-gather",
    "1.3b-v5e-4x4-d2c4t2-gather",
    "1.3b-v5e-4x4-d2c8t1-ring",
    "14b-v5e-4x4-d1c4t4-gather",
    "14b-v5e-4x4-d2c2t4-gather",
    "14b-v5e-4x4-d2c2t4-ulysses",
)
LARGE = (
    "1.3b-v5e-4x8-d2c4t4-gather",
    "14b-v5e-4x8-d2c4t4-gather",
    "14b-v5e-4x8-d1c8t4-gather",
    "1.3b-v5e-8x8-d2c8t4-gather",
    "14b-v5e-8x8-d2c8t4-gather",
    "14b-v5e-8x8-d1c8t8-gather",
    "1.3b-v5e-16x16-d2c32t4-gather",
    "14b-v5e-16x16-d2c16t8-gather",
)
MODELS = {"1.3b": "wan2.1-t2v-1.3b", "14b": "wan2.1-t2v-14b"}
ATTENTION = {"gather": "all_gather_kv", "ulysses": "ulysses", "ring": "ring"}
NAME = re.compile(
    r"(?P<model>[\d.]+b)-(?P<kind>\w+?)-(?P<shape>[\dx]+)-d(?P<d>\d+)c(?P<c>\d+)t(?P<t>\d+)-(?P<how>\w+)"
)


def parts(name: str) -> tuple[str, str, tuple[int, int, int], str]:
    """Model, slice, mesh shape, attention."""
    match = NAME.fullmatch(name)
    if match is None or match["model"] not in MODELS or match["how"] not in ATTENTION:
        sys.exit(f"{name}: not a name like {EIGHT[0]}")
    shape = (int(match["d"]), int(match["c"]), int(match["t"]))
    return (
        MODELS[match["model"]],
        f"{match['kind']}:{match['shape']}",
        shape,
        ATTENTION[match["how"]],
    )


def compile_one(out: pathlib.Path, name: str) -> None:
    """In this process: libtpu may abort it."""
    from aoizora import trace
    from aoizora.models.registry import find_model

    model_name, slice_name, shape, attention = parts(name)
    model = find_model(model_name)
    mesh = {"axes": ["data", "context", "tensor"], "shape": list(shape)}
    used = [[a, [m for m in axes if shape[mesh["axes"].index(m)] > 1]] for a, axes in RULES]
    candidate = trace.parse_candidate(
        {"mesh": mesh, "axis_rules": [rule for rule in used if rule[1]], "attention": attention}
    )
    made = trace.compile_hlo(model, model.options({}), slice_name, candidate)
    (out / f"{name}.hlo.xz").write_bytes(lzma.compress(made.hlo.encode(), preset=1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name}: peak {peak:.1f} GiB, {made.seconds}", file=sys.stderr)


def main() -> int:
    """One process a program; a failure does not stop the others."""
    if sys.argv[1:2] == ["--one"]:
        compile_one(pathlib.Path(sys.argv[2]), sys.argv[3])
        return 0
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    status = 0
    for name in sys.argv[2:] or (*EIGHT, *SIXTEEN, *LARGE):
        _, slice_name, shape, _ = parts(name)
        path = out / f"{name}.hlo.xz"
        if not path.exists():
            command = [sys.executable, os.path.abspath(__file__), "--one", str(out), name]
            if subprocess.run(command, check=False).returncode != 0:
                print(f"{name}: the compiler failed", file=sys.stderr)
                status = 1
                continue
        print(slice_name, ",".join(map(str, shape)), path, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
