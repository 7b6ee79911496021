"""Measures placements of JAX's own programs: multi-process JAX on CPUs, Gloo over the testbed's links.

    python -m study.gloo --compute    what the steps take without their bytes (first)
    python -m study.gloo --calibrate  isolated collectives, for gloo-profile.json
    python -m study.gloo [--only PART] [--most N] [--rate MBIT] [--output FILE]

A small Wan, sharded as the planner's candidates are, and chains of collectives, compiled by XLA for
CPUs, one process a host. A placement is how the hosts are plugged into the chips: the processes and
their connections stay, so no placement is compiled anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from study.harness import EXECUTABLE, FOLDER, ask, ask_job, die_with_parent, preferred
from study.programs import held_out
from study.protocol import measure

OUTPUT = FOLDER / "results" / "gloo.jsonl"
PROFILE = FOLDER / "gloo-profile.json"
SLICE = "v5e:2x4"
HOSTS = 8
COMPUTE = FOLDER / "results" / "gloo-compute.json"
POINTS = FOLDER / "results" / "gloo-calibration.json"
FAST_MBIT = 1000
STEPS = 2  # timed, after one that is not


def rules(**more: list[str]) -> list[list[Any]]:
    base = {
        "activation_batch": ["data"],
        "activation_length": ["context"],
        "activation_heads": ["tensor"],
        "heads": ["tensor"],
        "mlp": ["tensor"],
        "norm": ["tensor"],
    }
    return [[name, axes] for name, axes in {**base, **more}.items()]


def candidates() -> list[dict[str, Any]]:
    """A small Wan and a chain of collectives in turn."""
    found: list[dict[str, Any]] = []
    for mesh, attention in [
        ([1, 8, 1], "all_gather_kv"),
        ([2, 4, 1], "all_gather_kv"),
        ([1, 4, 2], "all_gather_kv"),
        ([2, 2, 2], "all_gather_kv"),
        ([1, 2, 4], "all_gather_kv"),
        ([1, 8, 1], "ulysses"),
        ([2, 4, 1], "ulysses"),
        ([1, 4, 2], "ulysses"),
        ([2, 4, 1], "ring"),
        ([1, 4, 2], "ring"),
    ]:
        name = f"gloo_wan_{'x'.join(map(str, mesh))}_{attention}"
        found.append({"name": name, "mesh": mesh, "attention": attention, "rules": rules()})
    for number in range(8):
        rng = random.Random(f"gloo mix {number}")
        mesh = rng.choice([[2, 4], [4, 2], [2, 2, 2]])
        kinds = ["all-gather", "all-reduce", "all-to-all", "collective-permute"]
        collectives = [
            [rng.choice(kinds), rng.randrange(len(mesh)), 8 * rng.randint(2_000, 12_000)]
            for _ in range(rng.randint(2, 4))
        ]
        # An all-gather's operand is a shard: keep what it makes of it to the size of the others.
        for one in collectives:
            if one[0] == "all-gather":
                one[2] //= 4
        mix = {"name": f"gloo_mix{number}", "mesh": mesh, "collectives": collectives}
        found.insert(2 * number + 1, mix)
    return found


def calibration() -> list[dict[str, Any]]:
    """One collective over one axis, none of them a test program."""
    return [
        {
            "name": f"gloo_cal_{kind}_{size}_{axis}",
            "mesh": [2, 4],
            "collectives": [[kind, axis, size]],
        }
        for kind in ("all-gather", "all-reduce", "all-to-all", "collective-permute")
        for axis in (0, 1)
        for size in (8_000, 64_000)
    ]


class Hosts:
    """The workers and the plugs."""

    def __init__(self, folder: Path, rate: float):
        for host in range(HOSTS):
            os.mkfifo(folder / f"command{host}")
            os.mkfifo(folder / f"answer{host}")
        # Short frames: Gloo asks before each segment that it sends, and the answer waits its turn. A
        # window beyond what it sends at once: data goes both ways on one connection, acknowledgements
        # ride on it, and with 48 kB they stall for the length of a timer.
        links = json.dumps({"rate_mbit": rate, "mtu": 1500, "window": 262144})
        worker = [sys.executable, "-m", "study.jax_worker", str(folder)]
        self._folder = folder
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [*preferred(), str(EXECUTABLE), "hosts", SLICE, "--links", links, "--", *worker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=FOLDER,
            preexec_fn=die_with_parent,  # noqa: PLW1509 (no threads here)
        )
        self._expect("ready")
        self._commands = [(folder / f"command{host}").open("w") for host in range(HOSTS)]
        self._answers = [(folder / f"answer{host}").open() for host in range(HOSTS)]

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != word:
            raise SystemExit("the hosts have ended: " + (self._folder / "log").read_text()[-2000:])

    def plug(self, placement: list[int]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, placement)) + "\n")
        self._process.stdin.flush()
        self._expect("plugged")

    def tell(self, command: dict[str, Any]) -> list[dict[str, float]]:
        for pipe in self._commands:
            pipe.write(json.dumps(command) + "\n")
            pipe.flush()
        found = []
        for pipe in self._answers:
            line = pipe.readline()
            if not line:
                raise SystemExit("a host has ended: " + (self._folder / "log").read_text()[-2000:])
            found.append(json.loads(line))
        return found

    def step_micros(self) -> float:
        """Mean of STEPS steps, from the last host's start to the last host's end."""
        self.tell({"steps": 1})
        answers = self.tell({"steps": STEPS})
        begin = max(a["begin"] for a in answers)
        return (max(a["end"] for a in answers) - begin) / STEPS * 1e6

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()


@contextmanager
def hosts(rate: float) -> Iterator[tuple[Hosts, Path]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        up = Hosts(folder, rate)
        try:
            yield up, folder
        finally:
            up.close()


def program_of(candidate: dict[str, Any], folder: Path, compute: float = 0.0) -> Path:
    """The compiled program as the planner sees it; `compute` is what it takes besides its bytes."""
    text = ask("cut", str(folder / "program.hlo"), SLICE, "--name", candidate["name"], "--gloo")
    program = json.loads(text)
    sizes = [n for n in candidate["mesh"] if n > 1]
    program["mesh"] = [[f"m{i}", n] for i, n in enumerate(sizes)]
    program["actions"] = [["compute", compute], *program["actions"]]
    file = folder / f"{candidate['name']}.json"
    file.write_text(json.dumps(program))
    return file


def fast_profile(folder: Path) -> Path:
    """The profile of links of FAST_MBIT."""
    profile = json.loads(PROFILE.read_text())
    profile["constants"]["link_bandwidth"]["value"] *= FAST_MBIT / 40
    file = folder / "fast.json"
    file.write_text(json.dumps(profile))
    return file


def calibrate(rate: float) -> None:
    """Times of isolated collectives in row-major order: what gloo-profile.json is fitted to."""
    rows = []
    with hosts(rate) as (up, _):
        up.plug(list(range(HOSTS)))
        for candidate in calibration():
            up.tell({"build": candidate})
            times = sorted(up.step_micros() for _ in range(5))
            rows.append({"program": candidate["name"], "micros": round(times[2], 1)})
            print(rows[-1], flush=True)
    POINTS.write_text("[\n " + ",\n ".join(map(json.dumps, rows)) + "\n]\n")


def measure_compute(todo: list[dict[str, Any]]) -> None:
    """What each step takes on links that are as good as none, less its bytes there: compute on two
    processors, and Gloo's and Python's own time. It is the same for every placement."""
    found = {}
    with hosts(FAST_MBIT) as (up, folder):
        for candidate in todo:
            up.plug(list(range(HOSTS)))
            up.tell({"build": candidate})
            job = {
                "slice": SLICE,
                "profile": str(fast_profile(folder)),
                "programs": [
                    {
                        "file": str(program_of(candidate, folder)),
                        "placements": [list(range(HOSTS))],
                    }
                ],
            }
            bytes_alone = ask_job("predict", job)[0]["predictions"][0]["event"]
            times = sorted(up.step_micros() for _ in range(7))
            found[candidate["name"]] = round(max(0.0, times[3] - bytes_alone), 1)
            print(
                f"{candidate['name']:<36} {times[3]:.0f} us, bytes {bytes_alone:.0f} us", flush=True
            )
    COMPUTE.write_text(json.dumps(found, indent=1) + "\n")


def study(candidate: dict[str, Any], up: Hosts, folder: Path, args: argparse.Namespace) -> None:
    up.plug(list(range(HOSTS)))
    up.tell({"build": candidate})
    compute = json.loads(COMPUTE.read_text())[candidate["name"]]
    job: dict[str, Any] = {
        "slice": SLICE,
        "profile": str(PROFILE),
        "programs": [{"file": str(program_of(candidate, folder, compute))}],
    }
    (chosen,) = ask_job("choose", job, "--most", str(args.most), "--exhaustive", str(args.most))
    placements = [c["placement"] for c in chosen["choices"]]
    job["programs"][0]["placements"] = placements
    predicted = ask_job("predict", job)[0]["predictions"]

    def run(i: int) -> dict[str, float]:
        up.plug(placements[i])
        return {"micros": up.step_micros()}

    why = [c["why"] for c in chosen["choices"]]
    events = [one["event"] for one in predicted]
    default = next((i for i, w in enumerate(why) if "default" in w), None)
    result = measure(run, events, default, args.rounds, args.finals, finalists=3)
    record = {
        "program": candidate["name"],
        "slice": SLICE,
        "held_out": held_out(candidate["name"]),
        "exhaustive": chosen["exhaustive"],
        "classes": chosen["classes"],
        "why": why,
        "placements": ["".join(f"{c:x}" for c in p) for p in placements],
        "predicted": {key: [one[key] for one in predicted] for key in predicted[0]},
        "stage1": result.stage1,
        "stage2": result.stage2,
        "compute": compute,
        "seconds": round(result.seconds, 1),
    }
    with args.output.open("a") as file:
        file.write(json.dumps(record) + "\n")
    times = result.medians()
    print(
        f"{time.strftime('%H:%M:%S')} {candidate['name']:<36} {len(times)} placements, "
        f"{result.seconds:.0f} s, spread {100 * (max(times) / min(times) - 1):.0f} %, "
        f"fastest {min(times) / 1e3:.0f} ms, predicted {min(events) / 1e3:.0f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--most", type=int, default=10, help="placements a program")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--finals", type=int, default=2)
    parser.add_argument("--rate", type=float, default=40, help="Mbit/s of a link")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--compute", action="store_true", help="measure compute, on fast links")
    parser.add_argument("--calibrate", action="store_true", help="measure isolated collectives")
    args = parser.parse_args()
    if args.calibrate:
        return calibrate(args.rate)
    if args.compute:
        return measure_compute(candidates())
    done = set()
    if args.output.exists():
        done = {json.loads(line)["program"] for line in args.output.read_text().splitlines()}
    todo = [c for c in candidates() if args.only in c["name"] and c["name"] not in done]
    if not todo:
        sys.exit("nothing left to measure")
    with hosts(args.rate) as (up, folder):
        for candidate in todo:
            study(candidate, up, folder, args)


if __name__ == "__main__":
    main()
