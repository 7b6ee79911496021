"""Isolated against concurrent permute bandwidth, measured and predicted (the paper's Figure 3).

python -m study.figure3              measures and writes results/figure3.json
python -m study.figure3 --draw DIR   draws it from that file
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from study.harness import FOLDER, PROFILE, Testbed, ask_job

OUTPUT = FOLDER / "results" / "figure3.json"
SLICE, SIDE = "v5e:4x4", 4
BYTES = 1_000_000


def chip(x: int, y: int) -> int:
    return x + SIDE * y


def cases() -> dict[str, list[list[list[int]]]]:
    """Name -> collective-permutes that run at once, each a list of (source, target)."""
    rows = range(SIDE)

    def row_shift(by: int) -> list[list[int]]:
        return [[chip(x, y), chip((x + by) % SIDE, y)] for y in rows for x in rows]

    def column_shift(by: int) -> list[list[int]]:
        return [[chip(x, y), chip(x, (y + by) % SIDE)] for y in rows for x in rows]

    found: dict[str, list[list[list[int]]]] = {}
    for hops in (1, 2, 3):
        found[f"one pair, {hops} hop(s)"] = [[[chip(0, 0), chip(hops, 0)]]]
    for by in (1, 2, 3):
        found[f"rows shifted by {by}"] = [row_shift(by)]
    found["rows by 1 and columns by 1"] = [row_shift(1), column_shift(1)]
    found["rows by 1 twice"] = [row_shift(1), row_shift(1)]
    found["rows by 1 and by 3"] = [row_shift(1), row_shift(3)]
    found["transposition"] = [[[chip(x, y), chip(y, x)] for x in rows for y in rows if x != y]]
    return found


def program(name: str, permutes: list[list[list[int]]]) -> dict[str, Any]:
    numbers = range(len(permutes))
    return {
        "name": name,
        "slice": SLICE,
        "source": "study.figure3",
        "partitions": SIDE * SIDE,
        "collectives": [
            {"name": f"c{i}", "kind": "collective-permute", "bytes": BYTES, "pairs": pairs}
            for i, pairs in enumerate(permutes)
        ],
        "actions": [["start", i] for i in numbers] + [["done", i] for i in numbers],
    }


def measure() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        programs = []
        for i, (name, permutes) in enumerate(cases().items()):
            file = Path(folder) / f"{i}.json"
            file.write_text(json.dumps(program(name, permutes)))
            programs.append({"file": str(file), "placements": [list(range(SIDE * SIDE))]})
        job = {"slice": SLICE, "profile": str(PROFILE), "programs": programs}
        predicted = [p["predictions"][0]["event"] for p in ask_job("predict", job)]
        with Testbed(job) as testbed:
            for i, name in enumerate(cases()):
                times = [testbed.run(i, 0)["micros"] for _ in range(7)]
                rows.append(
                    {
                        "name": name,
                        "measured_mbit": round(BYTES * 8 / statistics.median(times), 3),
                        "predicted_mbit": round(BYTES * 8 / predicted[i], 3),
                        "times_us": times,
                    }
                )
    OUTPUT.write_text("[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", type=Path, help="draw into this folder instead of measuring")
    args = parser.parse_args()
    if args.draw:
        from study.figures import figure3

        figure3(OUTPUT, args.draw)
        return
    measure()
    for row in json.loads(OUTPUT.read_text()):
        off = 100 * (row["predicted_mbit"] / row["measured_mbit"] - 1)
        print(
            f"{row['name']:<28} measured {row['measured_mbit']:6.2f} Mbit/s, "
            f"predicted {row['predicted_mbit']:6.2f} ({off:+.1f} %)"
        )


if __name__ == "__main__":
    main()
