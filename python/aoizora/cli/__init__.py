"""The command `aoizora`. Each subcommand is one module here with `add_parser` and `run`.

Subcommands that need no compiler import neither JAX nor numpy: they start in well under 0.2 s.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

from aoizora import _core

EXIT_USER_ERROR = 2
EXIT_OUR_BUG = 70
EXIT_INTERRUPTED = 130


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the examples of an epilog as written."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; a command is every public module of this package."""
    parser = argparse.ArgumentParser(
        prog="aoizora",
        description="Chooses how a diffusion transformer is sharded and placed on a TPU slice.",
        epilog="examples:\n"
        "  aoizora plan wan2.1-t2v-1.3b --slice v5e:4x4\n"
        "  aoizora COMMAND --help",
        formatter_class=Formatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda found: found.name):
        if not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}").add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command. Bad input exits 2 with one line; a bug of ours exits 70 and says so."""
    try:
        arguments = build_parser().parse_args(argv)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except _core.UserError as error:
        text = str(error)
        print(text if ": error: " in text else f"aoizora: error: {text}", file=sys.stderr)
        return EXIT_USER_ERROR
    except (KeyboardInterrupt, _core.Interrupted):
        print("aoizora: interrupted; what was finished is kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever reads our output (head, less) closed it: no error. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("AOIZORA_DEBUG"):
            raise
        print(
            f"aoizora: internal error (this is a bug of ours, please report it): "
            f"{type(error).__name__}: {error}\n  AOIZORA_DEBUG=1 shows where",
            file=sys.stderr,
        )
        return EXIT_OUR_BUG
