"""JAX's programs as the planner sees them: compiled for eight virtual devices in one process.

    python -m study.gloo_programs                writes programs/gloo/*.json
    python -m study.gloo_programs --repredict    predicts results/gloo.jsonl with gloo-profile.json anew

Placements and measurements are not touched.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from study.gloo import HOSTS, OUTPUT, PROFILE, SLICE, calibration, candidates, program_of
from study.harness import FOLDER, ask_job

PROGRAMS = FOLDER / "programs" / "gloo"


def write_programs() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={HOSTS}"
    from study.jax_worker import build_mix, build_wan

    PROGRAMS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for candidate in [*candidates(), *calibration()]:
            make = build_mix if "collectives" in candidate else build_wan
            compiled, _ = make(candidate)
            (folder / "program.hlo").write_text(compiled.as_text())
            text = program_of(candidate, folder).read_text()
            (PROGRAMS / f"{candidate['name']}.json").write_text(text + "\n")


def with_compute(name: str, compute: float, folder: Path) -> Path:
    program = json.loads((PROGRAMS / f"{name}.json").read_text())
    program["actions"][0] = ["compute", compute]
    file = folder / f"{name}.json"
    file.write_text(json.dumps(program))
    return file


def predict(records: list[dict[str, Any]], profile: Path) -> list[dict[str, list[float]]]:
    """By record: model -> time of each of its placements."""
    with tempfile.TemporaryDirectory() as name:
        job = {
            "slice": SLICE,
            "profile": str(profile),
            "programs": [
                {
                    "file": str(with_compute(r["program"], r["compute"], Path(name))),
                    "placements": [[int(c, 16) for c in p] for p in r["placements"]],
                }
                for r in records
            ],
        }
        found = [one["predictions"] for one in ask_job("predict", job)]
    return [{key: [one[key] for one in ps] for key in ps[0]} for ps in found]


def repredict() -> None:
    records = [json.loads(line) for line in OUTPUT.read_text().splitlines()]
    for record, predicted in zip(records, predict(records, PROFILE), strict=True):
        record["predicted"] = predicted
    OUTPUT.write_text("".join(json.dumps(r) + "\n" for r in records))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repredict", action="store_true")
    args = parser.parse_args()
    if args.repredict:
        repredict()
    else:
        write_programs()


if __name__ == "__main__":
    main()
