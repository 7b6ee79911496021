"""`aoizora simulate`: what one step of a compiled program takes, and where the time goes."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter
from aoizora.cli._options import key_value
from aoizora.cli._request import read_file
from aoizora.cli.rank import mesh

ORDERS = ("row-major", "create_device_mesh")

EXAMPLES = """examples:
  aoizora simulate step.hlo --slice v5e:4x4
  aoizora simulate step.hlo --slice v5e:4x4 --order create_device_mesh --mesh context=4,tensor=4
  aoizora simulate step.hlo --slice v5e:4x4 --order plan.json --json | jq .step_us
  aoizora simulate step.hlo --slice v5e:4x4 --assume ring=given,flash=0.6 --trace step.json

An order file is JSON: a list of chip coordinates by mesh position, a plan, or what
`aoizora rank --json` prints. A trace opens in ui.perfetto.dev.
How times come about: docs/replay.md."""


def assumptions(text: str) -> dict[str, str]:
    """`ring=given,routing=yx`."""
    return dict(key_value(part) for part in text.split(","))


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "simulate",
        help="replay a compiled program on a slice: step time, waiting, busiest links",
        description="Replays the scheduled program op by op; devices meet in collectives.",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument(
        "file", metavar="FILE", help="compiled HLO text (may be packed: gz, xz), or -"
    )
    parser.add_argument("--slice", required=True, metavar="S", help="TPU slice: v5e:4x4")
    parser.add_argument(
        "--order",
        default="row-major",
        metavar="ORDER",
        help="row-major (default), create_device_mesh, or a file with chip coordinates",
    )
    parser.add_argument(
        "--mesh",
        type=mesh,
        metavar="a=4,b=4",
        help="logical mesh for create_device_mesh; default: what the program's groups tell",
    )
    parser.add_argument(
        "--assume",
        type=assumptions,
        metavar="NAME=VALUE,..",
        help="ring=as-compiled|given|reordered, routing=xy|yx|split, flash=FRACTION of peak FLOP/s",
    )
    parser.add_argument(
        "--mode",
        choices=("event", "lock-step"),
        default="event",
        help="event (default): a clock per device; lock-step: all wait for the slowest group",
    )
    parser.add_argument("--profile", metavar="FILE", help="constants of the chip (JSON)")
    parser.add_argument("--trace", metavar="FILE", help="also write a trace for Perfetto")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replays and prints; bad input raises UserError."""
    order = arguments.order
    if order not in ORDERS:
        if not pathlib.Path(order).exists():
            raise _core.UserError(f"--order {order}: neither {', '.join(ORDERS)} nor a file")
        order = read_file(order)
    request = {
        "path": arguments.file,
        "slice": arguments.slice,
        "order": order,
        "mesh": arguments.mesh,
        "assume": arguments.assume,
        "mode": arguments.mode,
        "profile": read_file(arguments.profile),
        "trace": arguments.trace,
    }
    answer = json.loads(_core.simulate(json.dumps(request)))
    if arguments.json:
        print(json.dumps(answer["result"], indent=2))
    else:
        sys.stdout.write(answer["text"])
    return 0
