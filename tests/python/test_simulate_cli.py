"""`aoizora simulate`: figures that add up, bad input in one line, a trace that holds the step."""

from __future__ import annotations

import itertools
import json
import lzma
import pathlib
from typing import Any

import pytest

from aoizora import cli

CASES = pathlib.Path(__file__).parent.parent / "cases" / "hlo"
WAN = str(CASES / "wan_1.3b_480p_v5e_4x4_context4_tensor4.hlo.xz")
GRID = [[x, y] for y in range(4) for x in range(4)]


def simulate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = cli.main(["simulate", WAN, *arguments])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status, out, err = simulate(capsys, "--slice", "v5e:4x4", "--json", *arguments)
    assert status == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


@pytest.mark.parametrize("mode", ["event", "lock-step"])
def test_step_is_compute_and_waits(capsys: pytest.CaptureFixture[str], mode: str) -> None:
    time = simulated(capsys, "--mode", mode)
    parts = time["compute_us"] + time["exposed_comm_us"] + time["exposed_copies_us"]
    assert time["step_us"] == pytest.approx(parts)
    assert time["bound_us"] <= time["step_us"]
    exposed = sum(c["exposed_us"] for c in time["collectives"])
    assert exposed == pytest.approx(time["exposed_comm_us"])
    assert time["unpriced"] == [] and time["warnings"] == []
    assert len(time["links"]) == 48  # 2 * 2 * 4 * 3 directed links of a 4x4 mesh, all used
    busy = [link["busy_us"] for link in time["links"]]
    assert busy == sorted(busy, reverse=True)


def test_modes_and_assumptions_matter(capsys: pytest.CaptureFixture[str]) -> None:
    slow = simulated(capsys, "--assume", "flash=0.5")
    fast = simulated(capsys, "--assume", "flash=1")
    # 414,732,779,520 and 6,480,199,680 FLOPs a block (cost_estimate in the text), 30 blocks.
    kernels = 30 * (414_732_779_520 + 6_480_199_680) / 197e6
    assert slow["compute_us"] - fast["compute_us"] == pytest.approx(kernels)


def test_order_files(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    rows = simulated(capsys)["step_us"]
    order = tmp_path / "order.json"
    for document in (GRID, {"device_coords": GRID}, {"best": {"coords": GRID}}):
        order.write_text(json.dumps(document))
        assert simulated(capsys, "--order", str(order))["step_us"] == rows
    scattered = [GRID[7 * i % 16] for i in range(16)]
    order.write_text(json.dumps(scattered))
    assert simulated(capsys, "--order", str(order))["step_us"] > rows


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--slice", "v5e:4x8"), "the program is for 16 devices, but v5e:4x8 has 32"),
        (("--slice", "v5e:4x4", "--order", "no-such-order"), "no-such-order"),
        (("--slice", "v5e:4x4", "--assume", "ring=round"), "ring=as-compiled|given|reordered"),
        (("--slice", "v5e:4x4", "--assume", "flash=2"), "above 0 and up to 1"),
        (("--slice", "v5e:4x4", "--profile", "/no/such/file"), "/no/such/file"),
        (
            ("--slice", "v5e:4x4", "--order", "create_device_mesh", "--mesh", "a=4,b=2"),
            "8 positions",
        ),
    ],
)
def test_bad_flags(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    status, out, err = simulate(capsys, *arguments)
    assert status == 2 and out == ""
    assert says in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ([[0, 0], *GRID[:1], *GRID[2:]], "repeats chip (0, 0, 0)"),
        (GRID[:15], "15 chips listed"),
        ([*GRID[:15], [7, 0]], "no chip at (7, 0)"),
        ({"chips": GRID}, "a list of chip coordinates"),
    ],
)
def test_bad_orders(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, order: Any, says: str
) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(order))
    status, _, err = simulate(capsys, "--slice", "v5e:4x4", "--order", str(file))
    assert status == 2
    assert says in err and err.count("\n") == 1


def test_bad_profile(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text('{"kind": "v5e", "name": "mine", "constants": {}}')
    status, _, err = simulate(capsys, "--slice", "v5e:4x4", "--profile", str(file))
    assert status == 2 and str(file) in err and err.count("\n") == 1


def test_a_program_without_a_schedule(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "step.hlo"
    with lzma.open(WAN, "rt") as text:
        file.write_text(text.read().replace(", is_scheduled=true", ""))
    assert cli.main(["simulate", str(file), "--slice", "v5e:4x4"]) == 0
    assert "not scheduled" in capsys.readouterr().out


def test_trace_holds_the_step(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "trace.json"
    time = simulated(capsys, "--trace", str(file))
    events = json.loads(file.read_text())["traceEvents"]
    runs = [e for e in events if e["ph"] == "X" and e["pid"] == time["slowest_partition"]]
    # What one device does, end to end, is its step: nothing is left out and nothing overlaps.
    assert sum(e["dur"] for e in runs) == pytest.approx(time["step_us"])
    assert max(e["ts"] + e["dur"] for e in runs) == pytest.approx(time["step_us"])
    for one, following in itertools.pairwise(runs):
        assert following["ts"] >= one["ts"] + one["dur"] - 1e-6
    begun = [e["id"] for e in events if e["ph"] == "b"]
    assert sorted(begun) == sorted(e["id"] for e in events if e["ph"] == "e")
