"""`aoizora rank`: budgets, Ctrl-C, bits, and what a person sees."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

MAIN = "import sys; from aoizora.cli import main; sys.exit(main())"
CASES = pathlib.Path(__file__).resolve().parent.parent / "cases" / "hlo"
WAN = str(CASES / "wan_1.3b_480p_v5e_4x4_context4_tensor4.hlo.xz")
SMALL = str(CASES / "v5e_2x4_2x4.hlo.xz")
ON_16 = [WAN, "--slice", "v5e:4x4", "--mesh", "context=4,tensor=4"]
ON_8 = [SMALL, "--slice", "v5e:2x4", "--mesh", "a=2,b=4"]


def rank(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it."""
    command = [sys.executable, "-c", MAIN, "rank", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def ranked(*arguments: str) -> dict:
    """Its JSON."""
    done = rank(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_budget_of_evaluations_gives_the_same_bits_with_any_number_of_threads() -> None:
    results = []
    for jobs in ("1", "2", "3"):
        result = ranked(*ON_16, "--evaluations", "3000", "--replayed", "16", "--jobs", jobs)
        del result["seconds"]
        results.append(result)
    assert results[0] == results[1] == results[2]
    assert results[0]["evaluated"] < 3 * 3000


def test_a_budget_of_time_ends_the_search_with_a_certified_gap() -> None:
    start = time.monotonic()
    result = ranked(*ON_16, "--budget", "2s", "--assume", "default")
    # One unit of work may be under way, and the machine may be busy with other things.
    assert time.monotonic() - start < 20
    assert 0 < result["lower_bound_us"] <= result["best"]["step_us"]
    assert result["gap"] < 0.2


def test_ctrl_c_gives_the_best_so_far() -> None:
    command = [sys.executable, "-c", MAIN, "rank", *ON_16, "--budget", "600s", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert any("stopped before" in note for note in result["notes"])
    assert len(result["best"]["coords"]) == 16
    assert result["lower_bound_us"] > 0


def test_eight_chips_are_searched_to_the_end() -> None:
    result = ranked(*ON_8)
    assert result["exact"]
    assert result["gap"] == pytest.approx(0, abs=1e-9)
    assert [baseline["name"] for baseline in result["baselines"]] == [
        "create_device_mesh",
        "row_major",
        "default_split",
    ]
    if result["tie"]:
        assert result["chosen"]["name"] == "create_device_mesh"


def test_explain_adds_up() -> None:
    result = ranked(
        *ON_16, "--evaluations", "3000", "--assume", "default", "--explain", "default", "best"
    )
    explanation = result["explanation"]
    assert explanation["first"]["name"] == "create_device_mesh"
    for which in ("first", "second"):
        waits = sum(one[which]["exposed_us"] for one in explanation["collectives"])
        assert waits == pytest.approx(explanation[which]["exposed_us"], rel=1e-9)
    text = rank(
        *ON_16, "--evaluations", "3000", "--assume", "default", "--explain", "default", "best"
    )
    assert "A: create_device_mesh" in text.stdout
    assert "isolated concurrent" in text.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*ON_16, "--explain", "default", "bst"], "invalid choice: 'bst'"),
        ([*ON_16, "--budget", "soon"], "'soon' is not a time like 10s"),
        (
            [WAN, "--slice", "v5e:4x4", "--mesh", "context=4"],
            "has 4 positions but v5e:4x4 has 16 chips",
        ),
        ([WAN, "--slice", "v5e:4x8"], "the program runs on 16 devices but v5e:4x8 has 32 chips"),
        ([WAN, "--slice", "v5p:4x1x1"], "does not fit its hosts"),
        (["/no/such.hlo", "--slice", "v5e:4x4"], "/no/such.hlo"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], says: str) -> None:
    done = rank(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
