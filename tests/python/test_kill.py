"""Killing workers or the planner at any moment loses no finished compile and yields no wrong plan."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from replay_worker import TOOLCHAIN

WORKER = pathlib.Path(__file__).with_name("replay_worker.py")
PLANNER = """
import json, sys
from aoizora import _core
sys.stdout.write(_core.plan(sys.argv[1], lambda *event: None))
"""


class Planner:
    """Plans Wan on v5e:2x4 from captured answers, in a process of its own, with one cache folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.log = folder / "log"
        self.cache = folder / "cache"
        self.request = {
            "model": "wan2.1-t2v-1.3b",
            "options": {"resolution": "480p", "frames": 81, "batch": 1, "cfg": True},
            "slice": "v5e:2x4",
            "top_k": 3,
            "jobs": 2,
            "compiler": "jax",
            "toolchain": TOOLCHAIN,
            "worker_argv": [sys.executable, str(WORKER)],
            "cache_folder": str(self.cache),
        }

    def start(self, **environment: str) -> subprocess.Popen[str]:
        """A planner at work."""
        return subprocess.Popen(
            [sys.executable, "-c", PLANNER, json.dumps(self.request)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "REPLAY_LOG": str(self.log), **environment},
        )

    def plan(self, **environment: str) -> dict[str, Any]:
        """The plan, without its wall times."""
        process = self.start(**environment)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        plan: dict[str, Any] = json.loads(out)
        plan.pop("run")
        return plan

    def compiles(self) -> collections.Counter[str]:
        """How often each compile was finished by a worker."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return collections.Counter(line for line in lines if line.startswith("compile "))

    def kept(self) -> int:
        """Whole artefacts in the cache."""
        return len(list(self.cache.glob("artefacts/*/*.json")))


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The plan of a run that nothing disturbs."""
    return Planner(tmp_path_factory.mktemp("reference")).plan()


@pytest.mark.parametrize("victim", ["0", "1", "2"])
def test_a_killed_worker_costs_only_its_candidate(
    tmp_path: pathlib.Path, reference: dict[str, Any], victim: str
) -> None:
    planner = Planner(tmp_path)
    planner.request["jobs"] = 1
    wounded = planner.plan(REPLAY_DIE_ON=victim)
    failed = [c for c in wounded["candidates"] if c["status"] == "failed"]
    assert failed and all("killed by signal 9" in c["reason"] for c in failed)
    healed = planner.plan()
    assert healed == reference
    assert max(planner.compiles().values()) == 1, "a finished compile was made again"


def test_a_planner_killed_at_any_moment_loses_nothing(
    tmp_path: pathlib.Path, reference: dict[str, Any]
) -> None:
    planner = Planner(tmp_path)
    seed = random.Random(20261201)
    kept = 0
    for _ in range(6):
        process = planner.start(REPLAY_COMPILE_SECONDS="0.2")
        time.sleep(seed.uniform(0.1, 1.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert planner.kept() >= kept, "a finished artefact is gone"
        kept = planner.kept()
    assert planner.plan() == reference
    assert not list(planner.cache.rglob("*.corrupt"))


def test_ctrl_c_keeps_what_is_done(tmp_path: pathlib.Path, reference: dict[str, Any]) -> None:
    planner = Planner(tmp_path)
    process = planner.start(REPLAY_COMPILE_SECONDS="1")
    deadline = time.monotonic() + 60
    while planner.kept() < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and "Interrupted" in err
    before = planner.kept()
    assert before >= 3
    assert planner.plan() == reference
    assert planner.kept() > before
