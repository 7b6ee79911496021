"""`aoizora candidates`: which shardings there are, and why the others are not legal."""

from __future__ import annotations

import argparse
import collections
import json
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter
from aoizora.cli._progress import StageProgress
from aoizora.cli._request import add_model_flags, base_request

EXAMPLES = """examples:
  aoizora candidates wan2.1-t2v-1.3b --slice v5e:4x4
  aoizora candidates wan2.1-t2v-14b --slice v5e:4x8 --json
  aoizora candidates wan2.1-t2v-1.3b --slice v5e:4x4 --space narrow.json"""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "candidates",
        help="list the legal shardings of a model on a slice",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    add_model_flags(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the legal candidates, then how many fall for each reason."""
    with StageProgress(quiet=True) as progress:
        text = _core.candidates(json.dumps(base_request(arguments)), progress)
    if arguments.json:
        sys.stdout.write(text)
        return 0
    found = json.loads(text)
    legal, illegal = found["legal"], found["illegal"]
    print(f"{found['model']} on {found['slice']}: {len(legal)} legal candidates")
    for candidate in legal:
        print(f"  {candidate['id']}")
    print(f"\n{len(illegal)} illegal")
    reasons = collections.Counter(candidate["reason"] for candidate in illegal)
    for reason, count in reasons.most_common():
        print(f"  {count:4}  {reason}")
    print(f"\n{found['duplicates']} more are the same program as one of these")
    return 0
