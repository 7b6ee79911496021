"""`aoizora topology`: the chips and links of a slice."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter

EXAMPLES = """examples:
  aoizora topology v5e:4x4
  aoizora topology v4:4x4x8_twisted --json | jq .bisection_links
  aoizora topology v5e:2x4+2x4
  aoizora topology lab.json

A file describes any graph, or a slice with a slow link:
  {"nodes": 4, "links": [{"from": 0, "to": 1, "bandwidth_gbps": 45, "latency_us": 1}, ...]}
  {"slice": "v5e:4x4", "links": [{"from": [0, 0], "to": [1, 0], "bandwidth_gbps": 20}]}"""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "topology",
        help="the chips, links and bisection of a slice, with a drawing",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("slice", metavar="S", help="TPU slice (v5e:4x4), or a graph file (.json)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the topology."""
    sys.stdout.write(_core.topology(arguments.slice, arguments.json))
    return 0
