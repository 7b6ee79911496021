#!/usr/bin/env python3
"""Compiles a plan from its file alone and compares with the program that the plan was made from.

  .venv/bin/python scripts/compile_plan.py PLAN.json --cache-dir DIR

The compiler gets the plan's model, axis rules, attention and device order. Exit 1 when its HLO differs from
the artefact that the planner kept for the same job, or when there is none.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

JOB = ("model", "options", "slice", "candidate", "device_coords", "compiler_options")


def job_of(plan: dict) -> dict:
    """The compile job that a plan file describes."""
    candidate = {
        name: plan[name] for name in ("mesh", "axis_rules", "attention", "variant") if name in plan
    }
    return {
        "model": plan["model"]["name"],
        "options": plan["model"]["options"],
        "slice": plan["slice"],
        "candidate": candidate,
        "device_coords": plan["device_coords"],
        "compiler_options": plan["evidence"]["compiler_options"],
    }


def compiled(job: dict) -> str:
    """HLO text from a worker of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "hlo"
        request = json.dumps({**job, "op": "compile", "out": str(out)})
        answer = subprocess.run(
            [sys.executable, "-m", "aoizora.worker"],
            input=request + "\n",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        if not json.loads(answer)["ok"]:
            sys.exit(answer)
        return out.read_text()


def kept(job: dict, cache: pathlib.Path) -> str:
    """The planner's artefact of the same job."""
    for path in sorted(cache.glob("artefacts/*/*.json")):
        meta = json.loads(path.read_text())["meta"]
        if meta.get("job") == job:
            return path.with_suffix(".text").read_text()
    sys.exit(f"{cache}: holds no compile of this plan's job")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("--cache-dir", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    job = job_of(json.loads(arguments.plan.read_text()))
    same = compiled(job) == kept(job, arguments.cache_dir)
    print(
        "the compiler makes the plan's program again"
        if same
        else "the compiler makes another program"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
