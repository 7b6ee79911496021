"""Measures placements of every program by traffic replay.

    python -m study.traffic [--only PART] [--most N] [--exhaustive N] [--output FILE]

Writes a line of JSON a program (results/traffic.jsonl): placements, predictions, every repeat.
A program that is in the file already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from study.harness import FOLDER, PROFILE, Testbed, ask_job
from study.programs import PROGRAMS, held_out
from study.protocol import measure

OUTPUT = FOLDER / "results" / "traffic.jsonl"


def done_names(output: Path) -> set[str]:
    if not output.exists():
        return set()
    return {json.loads(line)["program"] for line in output.read_text().splitlines()}


def usage(details: list[dict[str, float]]) -> dict[str, float]:
    """Of all runs of a program: were links the bottleneck, or the machine?"""
    return {
        "busiest_link": round(statistics.median(d["busiest_link"] for d in details), 3),
        "mean_link": round(statistics.median(d["mean_link"] for d in details), 3),
        "cores": round(statistics.median(d["cores"] for d in details), 3),
        "machine": round(statistics.median(d["machine"] for d in details), 3),
        "late_ms": round(max(d["late"] for d in details) / 1e3, 2),
        "resent": int(sum(d["resent"] for d in details)),
        "queued": int(max(d["queued"] for d in details)),
    }


def study(slice_: str, files: list[Path], args: argparse.Namespace) -> None:
    job: dict[str, Any] = {
        "slice": slice_,
        "profile": str(PROFILE),
        "programs": [{"file": str(file)} for file in files],
    }
    choices = ask_job("choose", job, "--most", str(args.most), "--exhaustive", str(args.exhaustive))
    for program, chosen in zip(job["programs"], choices, strict=True):
        program["placements"] = [c["placement"] for c in chosen["choices"]]
    predictions = ask_job("predict", job)
    with Testbed(job) as testbed:
        for p, chosen in enumerate(choices):
            predicted = predictions[p]["predictions"]
            why = [c["why"] for c in chosen["choices"]]
            result = measure(
                lambda i, p=p: testbed.run(p, i),
                [one["event"] for one in predicted],
                next((i for i, w in enumerate(why) if "default" in w), None),
                rounds=args.rounds,
                finals=args.finals,
            )
            record = {
                "program": chosen["program"],
                "slice": slice_,
                "held_out": held_out(chosen["program"]),
                "exhaustive": chosen["exhaustive"],
                "classes": chosen["classes"],
                "why": why,
                "placements": [
                    "".join(f"{c:x}" for c in x["placement"]) for x in chosen["choices"]
                ],
                "predicted": {key: [one[key] for one in predicted] for key in predicted[0]},
                "stage1": result.stage1,
                "stage2": result.stage2,
                "usage": usage(result.details),
                "seconds": round(result.seconds, 1),
            }
            with args.output.open("a") as file:
                file.write(json.dumps(record) + "\n")
            times = result.medians()
            best = min(times)
            spread = max(times) / best - 1
            print(
                f"{time.strftime('%H:%M:%S')} {chosen['program']:<48} {len(times):>3} placements"
                f"{' (all)' if chosen['exhaustive'] else ''}, {result.seconds:.0f} s, spread "
                f"{100 * spread:.0f} %, links {100 * record['usage']['busiest_link']:.0f} %, "
                f"cores {record['usage']['cores']:.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--most", type=int, default=22, help="placements a program, where sampled")
    parser.add_argument("--exhaustive", type=int, default=48, help="take all when so few classes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--finals", type=int, default=5)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args()
    done = done_names(args.output)
    by_slice: dict[str, list[Path]] = {}
    for file in sorted(PROGRAMS.glob("*.json")):
        if args.only in file.stem and file.stem not in done:
            by_slice.setdefault(json.loads(file.read_text())["slice"], []).append(file)
    if not by_slice:
        sys.exit("nothing left to measure")
    for slice_, files in sorted(by_slice.items()):
        study(slice_, files, args)


if __name__ == "__main__":
    main()
