#!/usr/bin/env python3
"""Captures what the compiler answers while Wan 2.1 1.3B is planned on v5e:2x4: tests replay it.

Run it again when the JAX side or the compiler changes:
  .venv/bin/python scripts/capture_pipeline.py
Writes tests/cases/pipeline (texts packed with xz; the reader unpacks by content).
"""

import json
import lzma
import pathlib
import shutil
import sys
import tempfile

from aoizora import _core

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "cases" / "pipeline"

# The toolchain is part of every key; the tests say the same word instead of versions.
REQUEST = {
    "model": "wan2.1-t2v-1.3b",
    "options": {"resolution": "480p", "frames": 81, "batch": 1, "cfg": True},
    "slice": "v5e:2x4",
    "top_k": 3,
    "compiler": "jax",
    "toolchain": {"captured": "wan2.1-t2v-1.3b on v5e:2x4"},
    "worker_argv": [sys.executable, "-m", "aoizora.worker"],
}


def event(kind: str, stage: str, text: str, done: int, total: int, seconds: float) -> None:
    """Tells what is going on."""
    print(kind, stage, text, f"{done}/{total}", f"{seconds:.1f} s", file=sys.stderr)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        plan = json.loads(_core.plan(json.dumps({**REQUEST, "cache_folder": folder}), event))
        if TARGET.exists():
            shutil.rmtree(TARGET)
        for source in sorted((pathlib.Path(folder) / "artefacts").rglob("*")):
            if not source.is_file():
                continue
            target = TARGET / source.relative_to(pathlib.Path(folder) / "artefacts")
            target.parent.mkdir(parents=True, exist_ok=True)
            content = source.read_bytes()
            packed = source.suffix == ".text" and content
            target.write_bytes(lzma.compress(content, preset=9) if packed else content)
    print(f"captured {plan['id']}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
