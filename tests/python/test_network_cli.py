"""`aoizora topology`, `cost` and `calibrate`: what they print, and what bad input gets."""

from __future__ import annotations

import json
import pathlib

import pytest

from aoizora.cli import main

ROW = ["--slice", "v5e:4x4", "--mesh", "a=4,b=4", "--axis", "b", "--bytes", "42750000"]


def test_topology_draws(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "v5e:2x2"]) == 0
    assert "  2--3\n  |  |\n  0--1\n" in capsys.readouterr().out


def test_topology_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "v6e:8x16", "--json"]) == 0
    topology = json.loads(capsys.readouterr().out)
    assert topology["wrap"] == [False, True]
    assert topology["directed_links"] == len(topology["links"]) == 480


def test_cost_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "all-gather", *ROW, "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
    # 3/4 of 42.75 MB at 42.75 GB/s, three launches of 0.25 us, five hops of 1 us.
    assert cost["time_us"] == pytest.approx(750 + 5.75)
    assert cost["bound_us"] <= cost["time_us"]
    assert cost["algorithm"] == "ring, 2 directions"


def test_cost_depends_on_the_order(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    order = tmp_path / "order.json"
    blocks = [
        [2 * bx + x, 2 * by + y] for by in (0, 1) for bx in (0, 1) for y in (0, 1) for x in (0, 1)
    ]
    order.write_text(json.dumps(blocks))
    assert main(["cost", "all-gather", *ROW, "--json", "--order", str(order)]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert cost["time_us"] < 400  # a 2x2 block is a ring: half of a line


def test_jax_order_is_a_worse_ring_than_the_compilers(capsys: pytest.CaptureFixture[str]) -> None:
    ring = [
        "cost",
        "all-gather",
        "--slice",
        "v5e:2x4",
        "--mesh",
        "a=8",
        "--axis",
        "a",
        "--bytes",
        "10000000",
        "--json",
    ]
    times = []
    for flags in (
        ["--order", "create_device_mesh", "--assume", "ring=given"],
        ["--assume", "ring=reordered"],
    ):
        assert main([*ring, *flags]) == 0
        times.append(json.loads(capsys.readouterr().out)["time_us"])
    assert times[0] > 1.5 * times[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topology", "v9:2x2"], "the kinds are v4, v5e, v5p, v6e, v7x"),
        (["topology", "v5e:3x4"], "1, 2, 4, 8, 16"),
        (["cost", "all-gather", *ROW, "--assume", "ring=x"], "ring=given|reordered|compiled"),
        (["cost", "all-gather", *ROW[:-4], "--axis", "c", "--bytes", "1"], "no axis `c`"),
        (["cost", "all-gather", *ROW, "--order", "missing.json"], "missing.json: cannot be read"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_bad_profile_names_the_constant(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    points = tmp_path / "points.csv"
    points.write_text(
        "name,kind,slice,mesh,axis,bytes,time_us\n"
        "a,all-gather,v5e:1x4,a=4,a,1000000,40\nb,all-gather,v5e:1x4,a=4,a,4000000,100\n"
    )
    profile = tmp_path / "profile.json"
    assert main(["calibrate", str(points), "--output", str(profile)]) == 0
    assert "2 constants fitted to 2 points" in capsys.readouterr().out
    assert main(["cost", "all-gather", *ROW, "--profile", str(profile)]) == 0
    constants = json.loads(profile.read_text())
    constants["constants"]["launch"]["value"] = -1
    profile.write_text(json.dumps(constants))
    capsys.readouterr()
    assert main(["cost", "all-gather", *ROW, "--profile", str(profile)]) == 2
    assert "`launch` is -1" in capsys.readouterr().err
