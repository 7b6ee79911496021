"""The process that drives JAX for the C++ core: JSON lines in, JSON lines out.

``python -m aoizora.worker`` reads one request per line on stdin and writes exactly one response
line per request on the stdout it was started with. libtpu and XLA print what they like: file
descriptor 1 is pointed at stderr before they load.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable
from importlib import metadata
from typing import IO, Any

from aoizora.errors import AoizoraError, UserError

Request = dict[str, Any]
# Compile-only: no TPU is looked for, and several workers may load libtpu side by side.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
}


def write_atomic(path: str, text: str) -> None:
    """Writes a whole file or nothing, so that a killed worker never leaves half of one."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".tmp-")
    except OSError as error:
        raise UserError(f"can't write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # mkstemp is private, a shared cache is not
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise UserError(f"can't write {path}: {error.strerror}") from error


def field(request: Request, name: str, kind: type, default: Any = None) -> Any:
    """A field of the request, checked; required when there is no default."""
    value = request.get(name, default)
    if value is None or not isinstance(value, kind):
        raise UserError(f'request field "{name}" must be a {kind.__name__}, not {value!r}')
    return value


def versions() -> dict[str, str]:
    """Versions that an artefact's key must hold."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("jax", "jaxlib", "libtpu"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError as error:
            raise UserError(f"{name} is not installed: pip install {name}") from error
    return found


def _model_and_options(request: Request) -> tuple[Any, Any]:
    from aoizora.models.registry import find_model

    model = find_model(field(request, "model", str))
    return model, model.options(field(request, "options", dict, {}))


def op_describe(request: Request) -> Request:
    """What the model is, before any sharding."""
    from aoizora import trace

    found = versions()
    model, options = _model_and_options(request)
    description = model.describe(options)
    description["fingerprint"] = trace.fingerprint(model, options)
    return {"description": description, "versions": found}


def op_shard(request: Request) -> Request:
    """Shardy's local program of a candidate, written to ``out``."""
    from aoizora import trace

    model, options = _model_and_options(request)
    candidate = trace.parse_candidate(field(request, "candidate", dict))
    out = field(request, "out", str)
    made = trace.local_program(model, options, field(request, "slice", str), candidate)
    write_atomic(out, made.text)
    return {"seconds": made.seconds, "notes": made.notes}


def op_compile(request: Request) -> Request:
    """libtpu's scheduled HLO of a candidate on a placement, written to ``out``."""
    from aoizora import trace

    model, options = _model_and_options(request)
    candidate = trace.parse_candidate(field(request, "candidate", dict))
    out, schedule_out = field(request, "out", str), request.get("schedule_out")
    made = trace.compile_hlo(
        model,
        options,
        field(request, "slice", str),
        candidate,
        coords=request.get("device_coords"),
        compiler_options=field(request, "compiler_options", dict, {}),
        schedule=schedule_out is not None,
    )
    if made.schedule is not None:
        write_atomic(str(schedule_out), made.schedule)
    write_atomic(out, made.hlo)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"memory": made.memory, "seconds": made.seconds, "peak_rss_bytes": peak}


def op_device_mesh(request: Request) -> Request:
    """The order of chips that JAX gives a mesh by default."""
    from aoizora import trace

    shape = field(request, "mesh_shape", list)
    if not all(isinstance(n, int) and n > 0 for n in shape):
        raise UserError(f"mesh_shape must hold whole numbers of at least 1, not {shape}")
    return {"coords": trace.default_mesh_coords(field(request, "slice", str), tuple(shape))}


def op_coords(request: Request) -> Request:
    """The slice's chip coordinates in the compiler's default order."""
    from aoizora import jaxapi, trace

    devices = trace.slice_devices(field(request, "slice", str))
    return {"coords": [list(jaxapi.device_coords(d)) for d in devices]}


OPERATIONS: dict[str, Callable[[Request], Request]] = {
    "describe": op_describe,
    "shard": op_shard,
    "compile": op_compile,
    "device_mesh": op_device_mesh,
    "coords": op_coords,
}


def failure(kind: str, message: str, detail: str | None = None) -> Request:
    """A failed response; the message is one line."""
    error = {"kind": kind, "message": " ".join(message.split())}
    return {"ok": False, "error": error | ({"detail": detail} if detail else {})}


def answer(line: str) -> Request:
    """The response to one request line; never raises."""
    try:
        request = json.loads(line)
    except ValueError as error:
        return failure("user", f"not a JSON request: {error}")
    if not isinstance(request, dict):
        return failure("user", "a request must be a JSON object")
    echo = {"id": request["id"]} if "id" in request else {}
    try:
        name = field(request, "op", str)
        if name not in OPERATIONS:
            raise UserError(f"unknown op {name!r}; known: {', '.join(OPERATIONS)}")
        return echo | {"ok": True} | OPERATIONS[name](request)
    except AoizoraError as error:
        response = echo | failure(error.kind, str(error), _cause(error))
        if getattr(error, "memory", None):
            response["error"]["memory"] = error.memory  # type: ignore[attr-defined]
        return response
    except Exception as error:  # one bad request must not end the worker
        message = f"{type(error).__name__}: {error}"[:500]
        return echo | failure("internal", message, traceback.format_exc())


def _cause(error: BaseException) -> str | None:
    return str(error.__cause__)[:4000] if error.__cause__ else None


def serve(lines: IO[str], out: IO[str]) -> None:
    """Answers every line until the input ends."""
    for line in lines:
        if line.strip():
            out.write(json.dumps(answer(line)) + "\n")
            out.flush()


def quieten_collector() -> None:
    """Tracing makes many long-lived objects; collecting them often costs a tenth of the time."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


def main() -> None:
    """Keeps the original stdout for responses and sends everything else to stderr."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    quieten_collector()
    serve(sys.stdin, out)


if __name__ == "__main__":
    main()
