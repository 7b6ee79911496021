"""Types of the C++ core (bindings/): JSON in, JSON out."""

from collections.abc import Callable


class UserError(ValueError): ...


class InternalError(AssertionError): ...


class Interrupted(KeyboardInterrupt): ...


def plan(request: str, on_event: Callable[[str, str, str, int, int, float], None]) -> str:
    """Plans (src/aoizora/plan_service.h): JSON request in, JSON plan out."""


def candidates(request: str, on_event: Callable[[str, str, str, int, int, float], None]) -> str:
    """Describes and enumerates only; the same request as `plan`."""


def plan_text(text: str, file: str, colour: bool, candidates: int, verbose: bool) -> str:
    """A plan file's text as a person reads it."""


def check_plan(path: str) -> str:
    """Reads a plan file, checks it, and gives it back as JSON."""


def rank(request: str) -> str:
    """Ranks placements of a compiled program (src/aoizora/place/rank_service.h)."""


def read_bytes(path: str) -> bytes:
    """A file or standard input (`-`), unpacked where it is gz, xz or zstd."""


def text_form(data: bytes) -> str:
    """`hlo`, `generic_mlir`, `pretty_mlir`, `mlir_bytecode` or `binary` (ir/program.h)."""


def inspect(data: bytes, file: str, as_json: bool) -> str:
    """What src/aoizora/ir/inspect.h shows of a program, as JSON or as text."""

def program_json(data: bytes, file: str) -> str:
    """Every computation and instruction of a program, as JSON (src/aoizora/ir/printer.h)."""

def print_hlo(data: bytes, file: str) -> bytes:
    """An HLO text read and printed again."""
