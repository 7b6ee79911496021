"""`aoizora export`: a plan in the words of the program that runs it."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter
from aoizora.serving import PlanError, load
from aoizora.serving.export import FORMATS

EXAMPLES = """examples:
  aoizora export plan.json --format maxdiffusion -o override.yml
  aoizora export plan.json --format flax
  aoizora export plan.json --format jax -o plan_mesh.py
  aoizora export plan.json --format json

maxdiffusion: settings to append to a base_wan_*.yml; flax and jax: a Python file that needs no
AoiZora; json: mesh, rules, attention and device order alone. docs/serving.md shows their use."""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "export",
        help="write a plan for MaxDiffusion, Flax or plain JAX",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("plan", metavar="PLAN", help="a plan file (aoizora plan --out FILE)")
    parser.add_argument("--format", required=True, choices=tuple(FORMATS), help="what to write")
    parser.add_argument("-o", "--out", metavar="FILE", help="default: standard output")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Reads, translates, writes."""
    try:
        text = FORMATS[arguments.format](load(arguments.plan))
    except PlanError as error:
        raise _core.UserError(str(error)) from None
    if arguments.out is None:
        sys.stdout.write(text)
        return 0
    try:
        pathlib.Path(arguments.out).write_text(text)
    except OSError as error:
        raise _core.UserError(f"{arguments.out}: cannot be written: {error.strerror}") from None
    return 0
