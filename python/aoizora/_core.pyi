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

def simulate(request: str) -> str:
    """Replays a compiled program (src/aoizora/simulate_service.h): JSON in, JSON out."""

def program_json(data: bytes, file: str) -> str:
    """Every computation and instruction of a program, as JSON (src/aoizora/ir/printer.h)."""

def print_hlo(data: bytes, file: str) -> bytes:
    """An HLO text read and printed again."""

def read_only(data: bytes, file: str) -> int:
    """Reads a program and gives its number of computations: for bench/ir_speed.py."""

def topology(slice: str, as_json: bool) -> str:
    """A slice or a graph file, as JSON or as text with a drawing (src/aoizora/topology/describe.h)."""

def cost(request: str, as_json: bool) -> str:
    """Prices one collective (src/aoizora/network/cost_service.h)."""

def device_mesh_order(slice: str, mesh: list[tuple[str, int]]) -> str:
    """JAX's `create_device_mesh` order as a JSON list of coordinates; UserError where it refuses."""

def calibrate(request: str) -> str:
    """Fits network constants to measured points (src/aoizora/network/calibrate.h)."""

def calibration_text(calibration: str) -> str:
    """What `calibrate` returned, as a person reads it."""
