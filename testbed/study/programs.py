"""Makes the programs of the study, once; they are kept in testbed/programs.

    python -m study.programs wan FOLDER...    compiled Wan steps (*.hlo, or an artefact store) found there
    python -m study.programs mixes            random mixes of concurrent collectives

One rule for all: links are busy for BUSY_US in row-major order, so that a run takes a few tenths of a second.
A program is held out (never looked at before the final measurement) when a hash of its name says so.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from study.calibrate import groups
from study.harness import FOLDER, PROFILE, ask, ask_job

PROGRAMS = FOLDER / "programs"
BUSY_US = 150_000
COMPUTE_SHARE = 0.5  # of BUSY_US, where a program's own ratio would make a run seconds long
# Steps that wait for collectives for more than a sixth of the time: there the program's own ratio of
# compute to communication can be kept.
NATIVE = ("2x2x2_ulysses-samples", "2x2x4_all_gather_kv-samples", "context4_tensor4")
LINK_RATE = json.loads(PROFILE.read_text())["constants"]["link_bandwidth"]["value"] * 1e3


def held_out(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[0] % 3 == 0


def wan_files(folder: Path) -> list[tuple[Path, str, str]]:
    """(file, slice, short name) of each compiled step in a folder of dumps or an artefact store."""
    found = []
    for file in sorted(folder.glob("v*-*.hlo")):
        slice_, rest = file.stem.split("_", 1)
        found.append((file, slice_.replace("-", ":", 1), f"{rest}-{folder.name}"))
    for meta in sorted(folder.glob("*/*.json")):
        job = json.loads(meta.read_text()).get("meta", {}).get("job", {})
        text = meta.with_suffix(".text")
        if "candidate" not in job or not text.read_text()[:400].count("is_scheduled=true"):
            continue
        candidate = job["candidate"]
        mesh = "x".join(map(str, candidate["mesh"]["shape"]))
        weights = "sharded" if any(r[0] == "embed" for r in candidate["axis_rules"]) else "whole"
        attention = candidate.get("attention", candidate.get("strategy", ""))
        found.append((text, job["slice"], f"{mesh}_{attention}_{weights}"))
    return found


def fingerprint(program: dict[str, Any]) -> str:
    """Of what the network sees: programs that differ in names only are one."""
    seen = [
        [c["kind"], c["bytes"], c.get("groups"), c.get("pairs")] for c in program["collectives"]
    ]
    text = json.dumps(
        [program["slice"], seen, [a for a in program["actions"] if a[0] != "compute"]]
    )
    return hashlib.sha256(text.encode()).hexdigest()


def write(program: dict[str, Any]) -> None:
    PROGRAMS.mkdir(exist_ok=True)
    lines = ",\n ".join(
        f"{json.dumps(key)}: {json.dumps(value)}"
        if key not in ("collectives", "actions")
        else f"{json.dumps(key)}: [\n  " + ",\n  ".join(map(json.dumps, value)) + "]"
        for key, value in program.items()
    )
    (PROGRAMS / f"{program['name']}.json").write_text("{" + lines + "}\n")


def wan(folders: list[str]) -> None:
    known = {fingerprint(json.loads(f.read_text())) for f in PROGRAMS.glob("*.json")}
    for folder in folders:
        for file, slice_, short in wan_files(Path(folder)):
            name = f"wan_{slice_.replace(':', '-')}_{short}"
            cut = ["cut", str(file), slice_, "--name", name, "--link-rate", str(LINK_RATE)]
            cut += ["--micros", str(BUSY_US), "--compute", str(COMPUTE_SHARE)]
            program = json.loads(ask(*cut))
            if len(program.get("mesh", [])) == 0 or fingerprint(program) in known:
                continue
            known.add(fingerprint(program))
            write(program)
            if any(part in name for part in NATIVE):  # the same with its own ratio of compute
                program = json.loads(
                    ask(*cut[: cut.index("--micros")], "--micros", str(BUSY_US / 2))
                )
                program["name"] = name.replace("wan_", "wan_native_")
                write(program)


def random_mesh(rng: random.Random, chips: int) -> dict[str, int]:
    meshes = {
        8: [[8], [2, 4], [4, 2], [2, 2, 2]],
        16: [[16], [4, 4], [2, 8], [8, 2], [2, 4, 2], [2, 2, 4]],
    }[chips]
    return {f"m{i}": n for i, n in enumerate(rng.choice(meshes))}


def random_collective(rng: random.Random, mesh: dict[str, int], chips: int) -> dict[str, Any]:
    kind = rng.choice(
        ["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute"]
    )
    collective: dict[str, Any] = {"kind": kind, "bytes": int(1e5 * 4 ** rng.uniform(0, 1.5))}
    axis = rng.choice(list(mesh))
    made = groups(mesh, axis)
    if rng.random() < 0.2:  # groups that are no axis
        order = list(range(chips))
        rng.shuffle(order)
        size = mesh[axis]
        made = [order[i : i + size] for i in range(0, chips, size)]
    if kind == "collective-permute":
        shift = rng.choice([1, -1])
        collective["pairs"] = [
            [group[i], group[(i + shift) % len(group)]] for group in made for i in range(len(group))
        ]
    else:
        collective["groups"] = made
    return collective


def mix(number: int, slice_: str, chips: int) -> dict[str, Any]:
    """Windows of one to three collectives in flight at once, with compute before and inside."""
    rng = random.Random(f"mix {number}")
    mesh = random_mesh(rng, chips)
    collectives: list[dict[str, Any]] = []
    actions: list[list[Any]] = []
    for _ in range(rng.randint(2, 3)):
        actions.append(["compute", rng.uniform(2_000, 20_000)])
        window = []
        for _ in range(rng.randint(1, 3)):
            index = len(collectives)
            collectives.append({"name": f"c{index}", **random_collective(rng, mesh, chips)})
            actions.append(["start", index])
            window.append(index)
            if rng.random() < 0.5:
                actions.append(["compute", rng.uniform(1_000, 10_000)])
        rng.shuffle(window)
        actions += [["done", index] for index in window]
    return {
        "name": f"mix{number:02d}_{slice_.replace(':', '-')}",
        "slice": slice_,
        "source": f"study.programs mix {number}",
        "mesh": [[name, n] for name, n in mesh.items()],
        "partitions": chips,
        "collectives": collectives,
        "actions": actions,
    }


def scaled_mix(program: dict[str, Any]) -> dict[str, Any]:
    """Bytes so that row-major order takes 1.5 * BUSY_US (a small part of it compute)."""
    chips = list(range(program["partitions"]))
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "p.json"
            file.write_text(json.dumps(program))
            job = {
                "slice": program["slice"],
                "profile": str(PROFILE),
                "programs": [{"file": str(file), "placements": [chips]}],
            }
            time = ask_job("predict", job)[0]["predictions"][0]["event"]
        for collective in program["collectives"]:
            collective["bytes"] = max(1, round(collective["bytes"] * 1.5 * BUSY_US / time))
    program["actions"] = [
        [a[0], round(a[1], 1)] if a[0] == "compute" else a for a in program["actions"]
    ]
    return program


def mixes() -> None:
    number = 0
    for slice_, chips, count in [
        ("v5e:2x4", 8, 9),
        ("v5p:2x2x2", 8, 3),
        ("v5e:4x4", 16, 8),
        ("v5e:16x1", 16, 3),
    ]:
        for _ in range(count):
            write(scaled_mix(mix(number, slice_, chips)))
            number += 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["wan"]:
        wan(sys.argv[2:])
    elif sys.argv[1:] == ["mixes"]:
        mixes()
    else:
        raise SystemExit(__doc__)
