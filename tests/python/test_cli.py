"""The command as a person meets it: help, exit codes, one clear line for bad input."""

from __future__ import annotations

import json
import os
import pathlib
import pkgutil
import subprocess
import sys

import pytest

from aoizora import cli

AOIZORA = pathlib.Path(sys.executable).parent / "aoizora"


def aoizora(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the installed command; colour and progress are off since nothing is a terminal."""
    return subprocess.run(
        [AOIZORA, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(env or {})},
        timeout=300,
    )


def test_help_of_every_command_has_examples() -> None:
    top = aoizora("--help")
    assert top.returncode == 0 and "examples:" in top.stdout
    commands = [m.name for m in pkgutil.iter_modules(cli.__path__) if not m.name.startswith("_")]
    assert "plan" in commands and "version" in commands
    for command in commands:
        shown = aoizora(command, "--help")
        assert shown.returncode == 0
        assert "examples:" in shown.stdout, command


def test_version_is_json() -> None:
    shown = aoizora("version", "--json")
    assert json.loads(shown.stdout)["aoizora"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan",), "MODEL"),
        (("plan", "wan2.1-t2v-1.3b"), "--slice"),
        (("plan", "x", "--slice", "v5e:4x4", "--frames", "many"), "'many' is not a whole number"),
        (("plan", "x", "--slice", "v5e:4x4", "--top-k", "0"), "0 is less than 1"),
        (("plan", "x", "--slice", "v5e:4x4", "--cfg", "maybe"), "neither on nor off"),
        (("plan", "x", "--slice", "v5e:4x4", "--compiler-option", "fast"), "name=value"),
        (("plan", "x", "--slice", "v9z:4x4"), "v9z"),
        (("plan", "x", "--slice", "v5e:3x5"), "3x5"),
        (("plan", "x", "--slice", "v5e:4x4", "--space", "/no/such/file"), "/no/such/file"),
        (("plan", "x", "--slice", "v5e:4x4", "--out", "/no/such/folder/p.json"), "no folder"),
        (("plan", "no-such-model", "--slice", "v5e:4x4", "--no-cache", "-q"), "wan2.1-t2v-1.3b"),
        (
            ("plan", "wan2.1-t2v-1.3b", "--slice", "v5e:4x4", "--frames", "80", "--no-cache"),
            "frames",
        ),
        (
            ("plan", "wan2.1-t2v-1.3b", "--slice", "v5e:4x4", "--resolution", "4k", "--no-cache"),
            "480p",
        ),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(arguments: tuple[str, ...], says: str) -> None:
    done = aoizora(*arguments)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_folder_that_cannot_be_made_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    done = aoizora("plan", "x", "--slice", "v5e:4x4", "--cache-dir", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "cache folder" in done.stderr


def test_our_own_bug_says_so_and_exits_70() -> None:
    script = (
        "import sys; from aoizora import cli, _core\n"
        "def broken(*a, **k): raise _core.InternalError('sum is 3')\n"
        "_core.plan = broken\n"
        "sys.exit(cli.main(['plan', 'x', '--slice', 'v5e:4x4']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 70
    assert "bug of ours" in done.stderr and "sum is 3" in done.stderr


def test_commands_without_a_compiler_import_no_jax() -> None:
    script = (
        "import sys; from aoizora import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "bad = [m for m in ('jax', 'numpy', 'rich') if m in sys.modules]\n"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
