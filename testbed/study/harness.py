"""Talks to the aoizora-testbed executable."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent
EXECUTABLE = Path(
    os.environ.get("AOIZORA_TESTBED", FOLDER.parent / "build/testbed/testbed/aoizora-testbed")
)
PROFILE = FOLDER / "links-profile.json"


def die_with_parent() -> None:
    """In the child: SIGKILL when this process ends, however it ends (prctl PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def preferred() -> list[str]:
    """Packets are forwarded in the kernel, but chips are processes: they come before compilers of others."""
    return ["nice", "-n", os.environ.get("TESTBED_NICE", "-10")] if os.geteuid() == 0 else []


def ask(*arguments: str) -> str:
    done = subprocess.run(
        [str(EXECUTABLE), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"aoizora-testbed {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def write_job(job: dict[str, Any]) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(job, file)
    return file.name


def ask_job(command: str, job: dict[str, Any], *options: str) -> Any:
    path = write_job(job)
    try:
        return json.loads(ask(command, path, *options))
    finally:
        Path(path).unlink()


class Testbed:
    """A slice that is up; `run(program, placement)` by numbers into the job."""

    def __init__(self, job: dict[str, Any]):
        self._path = write_job(job)
        self._process = subprocess.Popen(
            [*preferred(), str(EXECUTABLE), "serve", self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 (no threads here)
        )
        if self._line() != "ready":
            raise SystemExit("the testbed did not come up")

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit(f"the testbed has ended ({self._process.wait()})")
        return line

    def run(self, program: int, placement: int) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{program} {placement}\n")
        self._process.stdin.flush()
        result: dict[str, float] = json.loads(self._line())
        return result

    def __enter__(self) -> Testbed:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        Path(self._path).unlink()
