#!/usr/bin/env python3
"""Compiles Wan steps ahead of time and keeps the compiler's own schedule of each, for the referee
`referees/schedule_compare.cc`: NAME.hlo.xz, NAME.schedule.txt.xz, NAME.slice.

    JAX_PLATFORMS=cpu TPU_SKIP_MDS_QUERY=1 ALLOW_MULTIPLE_LIBTPU_LOAD=1 \\
        python scripts/schedule_corpus.py OUT [NAME..]

Needs aoizora, jax and libtpu installed; about 15 s and 1 GB a program. What exists already is kept.
"""

from __future__ import annotations

import lzma
import os
import pathlib
import subprocess
import sys

SMALL, LARGE = "wan2.1-t2v-1.3b", "wan2.1-t2v-14b"
# name: model, slice, data x context x tensor, attention
PROGRAMS = {
    "1.3b-v5e-2x4-d2c2t2-ulysses": (SMALL, "v5e:2x4", (2, 2, 2), "ulysses"),
    "1.3b-v5e-2x4-d2c4t1-ulysses": (SMALL, "v5e:2x4", (2, 4, 1), "ulysses"),
    "1.3b-v5e-2x4-d1c4t2-gather": (SMALL, "v5e:2x4", (1, 4, 2), "all_gather_kv"),
    "1.3b-v5e-4x4-d1c16t1-gather": (SMALL, "v5e:4x4", (1, 16, 1), "all_gather_kv"),
    "1.3b-v5e-4x4-d2c2t4-gather": (SMALL, "v5e:4x4", (2, 2, 4), "all_gather_kv"),
    "1.3b-v5e-4x4-d2c4t2-gather": (SMALL, "v5e:4x4", (2, 4, 2), "all_gather_kv"),
    "1.3b-v5e-4x4-d2c8t1-ulysses": (SMALL, "v5e:4x4", (2, 8, 1), "ulysses"),
    "1.3b-v5e-4x4-d2c8t1-ring": (SMALL, "v5e:4x4", (2, 8, 1), "ring"),
    "1.3b-v5e-4x4-d1c4t4-gather": (SMALL, "v5e:4x4", (1, 4, 4), "all_gather_kv"),
    "1.3b-v6e-2x4-d2c4t1-gather": (SMALL, "v6e:2x4", (2, 4, 1), "all_gather_kv"),
    "14b-v5e-4x4-d1c4t4-gather": (LARGE, "v5e:4x4", (1, 4, 4), "all_gather_kv"),
    "14b-v5e-4x8-d2c4t4-gather": (LARGE, "v5e:4x8", (2, 4, 4), "all_gather_kv"),
    "14b-v6e-2x4-d2c1t4-gather": (LARGE, "v6e:2x4", (2, 1, 4), "all_gather_kv"),
    "14b-v6e-4x4-d2c8t1-ulysses": (LARGE, "v6e:4x4", (2, 8, 1), "ulysses"),
}
RULES = [
    ["activation_batch", ["data"]],
    ["activation_length", ["context"]],
    ["activation_heads", ["tensor"]],
    ["heads", ["tensor"]],
    ["mlp", ["tensor"]],
    ["norm", ["tensor"]],
]


def compile_one(out: pathlib.Path, name: str) -> None:
    """In this process: libtpu may abort it."""
    from aoizora import trace
    from aoizora.models.registry import find_model

    model_name, slice_name, shape, attention = PROGRAMS[name]
    model = find_model(model_name)
    mesh = {"axes": ["data", "context", "tensor"], "shape": list(shape)}
    used = [[a, [m for m in axes if shape[mesh["axes"].index(m)] > 1]] for a, axes in RULES]
    candidate = trace.parse_candidate(
        {"mesh": mesh, "axis_rules": [rule for rule in used if rule[1]], "attention": attention}
    )
    made = trace.compile_hlo(model, model.options({}), slice_name, candidate, schedule=True)
    assert made.schedule is not None
    packed = lzma.compress(made.schedule.encode(), preset=1)
    (out / f"{name}.schedule.txt.xz").write_bytes(packed)
    (out / f"{name}.slice").write_text(slice_name)
    (out / f"{name}.hlo.xz").write_bytes(lzma.compress(made.hlo.encode(), preset=1))


def main() -> int:
    """One process a program; a failure does not stop the others."""
    if sys.argv[1:2] == ["--one"]:
        compile_one(pathlib.Path(sys.argv[2]), sys.argv[3])
        return 0
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    status = 0
    for name in sys.argv[2:] or PROGRAMS:
        if (out / f"{name}.hlo.xz").exists():
            continue
        command = [sys.executable, os.path.abspath(__file__), "--one", str(out), name]
        if subprocess.run(command, check=False).returncode != 0:
            print(f"{name}: the compiler failed", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
