"""JAX's programs as the planner sees them: compiled for eight virtual devices in one process.

python -m study.gloo_programs    writes programs/gloo/*.json
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from study.gloo import HOSTS, calibration, candidates, program_of
from study.harness import FOLDER

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


if __name__ == "__main__":
    write_programs()
