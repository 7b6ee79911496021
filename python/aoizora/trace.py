"""From a candidate to artefacts: Shardy's local program, or libtpu's compiled HLO.

A candidate is ``{"mesh": {"axes", "shape"}, "axis_rules", "attention"}``. The local program does
not depend on the placement; the compiled one does, through ``device_coords`` (chip coordinates in
row-major mesh order).
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
import re
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from aoizora import jaxapi
from aoizora.errors import CompilerError, UnsupportedError, UserError
from aoizora.models.registry import Model, Step
from aoizora.models.rules import Rules, parse_rules
from aoizora.shardy_check import find_problems

SLICES = tuple(
    f"{kind}:{shape}"
    for kind, shapes in {
        "v4": ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8"),
        "v5e": (
            "1x1",
            "1x2",
            "1x4",
            "1x8",
            "2x2",
            "2x4",
            "4x2",
            "2x8",
            "4x4",
            "4x8",
            "8x4",
            "8x8",
            "8x16",
            "16x16",
        ),
        "v5p": ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8"),
        "v6e": ("1x1", "2x2", "2x4", "4x2", "4x4", "4x8", "8x4", "8x8", "8x16", "16x16"),
        "tpu7x": ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"),
    }.items()
    for shape in shapes
)


@dataclass(frozen=True)
class Candidate:
    """A logical sharding, checked."""

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    rules: Rules
    attention: str


@dataclass
class Seconds:
    """Wall seconds of named parts, in the order they ran."""

    parts: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.perf_counter)

    def mark(self, name: str) -> None:
        """Ends the part ``name``."""
        now = time.perf_counter()
        self.parts[name] = round(now - self.last, 6)
        self.last = now


def parse_candidate(raw: Any) -> Candidate:
    """Checks a candidate as it comes from JSON."""
    try:
        axes, shape = tuple(raw["mesh"]["axes"]), tuple(raw["mesh"]["shape"])
        rules, attention = raw["axis_rules"], raw["attention"]
    except (KeyError, TypeError) as error:
        raise UserError(
            'a candidate needs "mesh": {"axes", "shape"}, "axis_rules" and "attention"; '
            f"can't read {error}"
        ) from error
    if len(axes) != len(shape) or not axes or len(set(axes)) != len(axes):
        raise UserError(f"mesh axes {list(axes)} and shape {list(shape)} don't match")
    if not all(isinstance(n, int) and n > 0 for n in shape):
        raise UserError(f"mesh shape must hold whole numbers of at least 1, not {list(shape)}")
    return Candidate(axes, shape, parse_rules(rules), str(attention))


def slice_devices(name: str) -> tuple[Any, ...]:
    """Devices of a slice in the compiler's order; unknown slices are answered with those known."""
    try:
        return jaxapi.tpu_devices(name)
    except Exception as error:  # libtpu raises several types for a bad name
        raise UserError(
            f"the compiler can't target slice {name!r}; known: {', '.join(SLICES)} "
            f"({str(error).splitlines()[0][:160]})"
        ) from error


def sorted_coords(name: str) -> list[tuple[int, ...]]:
    """All chip coordinates, row-major: the order ``row_major`` means."""
    return sorted(jaxapi.device_coords(d) for d in slice_devices(name))


def make_mesh(candidate: Candidate, slice_name: str, coords: Any = None) -> Mesh:
    """The candidate's mesh over compile-only devices, placed by chip coordinates."""
    by_coords = {jaxapi.device_coords(d): d for d in slice_devices(slice_name)}
    order = sorted(by_coords) if coords is None else [tuple(int(x) for x in c) for c in coords]
    if math.prod(candidate.shape) != len(by_coords):
        raise UserError(
            f"mesh {'x'.join(map(str, candidate.shape))} has {math.prod(candidate.shape)} "
            f"devices, {slice_name} has {len(by_coords)}"
        )
    if sorted(order) != sorted(by_coords):
        raise UserError(f"device_coords must name each chip of {slice_name} exactly once")
    devices = np.empty(len(order), dtype=object)
    devices[:] = [by_coords[c] for c in order]
    return Mesh(devices.reshape(candidate.shape), candidate.axes)


def lower(step: Step, seconds: Seconds) -> Any:
    """Traces and lowers a step; a function from outside is already jitted."""
    jitted: Any = step.fn
    if not step.jitted:
        jitted = jax.jit(step.fn, out_shardings=step.out_shardings)
    traced = jitted.trace(*step.args)
    seconds.mark("trace")
    lowered = traced.lower()
    seconds.mark("lower")
    return lowered


@dataclass(frozen=True)
class LocalProgram:
    """Generic-form MLIR with local shapes, and what a reader should know about it."""

    text: str
    notes: list[str]
    seconds: dict[str, float]


def local_program(
    model: Model, options: Any, slice_name: str, candidate: Candidate
) -> LocalProgram:
    """Puts a candidate through Shardy: local shapes, explicit collectives."""
    seconds = Seconds()
    mesh = make_mesh(candidate, slice_name)
    step = model.build(options, mesh, candidate.rules, candidate.attention, flash=True)
    lowered = lower(step, seconds)
    module = jaxapi.lowered_module(lowered)
    notes, unknown = jaxapi.replace_chlo(module)
    if unknown:
        raise UnsupportedError(f"Shardy leaves {', '.join(unknown)} with global shapes")
    propagate, *rest = jaxapi.SHARDY_PIPELINE
    # Stopping between the passes costs nothing and is the only place where what Shardy would
    # get wrong can be seen: shardings are final, shapes still global.
    jaxapi.run_passes(module, (propagate, rest[0]))
    problems = find_problems(jaxapi.sharded_ops(module))
    if problems:
        raise UnsupportedError("Shardy can't make this local: " + "; ".join(problems[:3]))
    jaxapi.run_passes(module, tuple(rest[1:]))
    seconds.mark("shardy")
    text = jaxapi.generic_text(module)
    seconds.mark("print")
    if step.jitted and mesh.size > 1 and _is_whole_everywhere(step, text):
        notes.append(
            "the model ignores the axis rules: every argument is whole on every chip and there is "
            "no collective"
        )
    return LocalProgram(text, notes, seconds.parts)


def _is_whole_everywhere(step: Step, text: str) -> bool:
    """True when nothing of a program is sharded, whatever the candidate asked for."""
    shardings = [getattr(x, "sharding", None) for x in jax.tree.leaves(step.args)]
    whole = all(s is None or s.is_fully_replicated for s in shardings)
    return whole and "stablehlo.replica_group_mesh_axes" not in text


def typed_option(value: Any) -> Any:
    """libtpu wants typed values: true, not 'true'."""
    if not isinstance(value, str):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


@dataclass(frozen=True)
class CompiledProgram:
    """Scheduled HLO text, bytes per chip, the schedule dump if asked for."""

    hlo: str
    memory: dict[str, int]
    schedule: str | None
    seconds: dict[str, float]


def compile_hlo(
    model: Model,
    options: Any,
    slice_name: str,
    candidate: Candidate,
    *,
    coords: Any = None,
    compiler_options: dict[str, Any] | None = None,
    schedule: bool = False,
) -> CompiledProgram:
    """Compiles ahead of time with libtpu for this slice and placement."""
    seconds = Seconds()
    mesh = make_mesh(candidate, slice_name, coords)
    step = model.build(options, mesh, candidate.rules, candidate.attention, flash=True)
    lowered = lower(step, seconds)
    typed = {k: typed_option(v) for k, v in (compiler_options or {}).items()}
    with tempfile.TemporaryDirectory(prefix="aoizora-dump-") as dump:
        if schedule:
            typed |= {"xla_dump_to": dump, "xla_dump_latency_hiding_schedule": True}
        try:
            compiled = lowered.compile(compiler_options=typed or None)
        except Exception as error:
            raise CompilerError(_first_line(error), _out_of_memory(str(error))) from error
        seconds.mark("compile")
        dumped = _read_schedule(dump) if schedule else None
    analysis = compiled.memory_analysis()
    memory = {
        "argument_bytes": int(analysis.argument_size_in_bytes),
        "output_bytes": int(analysis.output_size_in_bytes),
        "temp_bytes": int(analysis.temp_size_in_bytes),
        "alias_bytes": int(analysis.alias_size_in_bytes),
        "code_bytes": int(analysis.generated_code_size_in_bytes),
    }
    text = compiled.as_text()
    seconds.mark("text")
    return CompiledProgram(text, memory, dumped, seconds.parts)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


_OUT_OF_MEMORY = re.compile(
    r"\(([\d.]+)([KMGT]?)\) exceeds available HBM \(([\d.]+)([KMGT]?)\)"
    r"|Used ([\d.]+)([KMGT]?) of ([\d.]+)([KMGT]?) hbm"
)


def _out_of_memory(message: str) -> dict[str, int] | None:
    """What the compiler needed and had, in bytes, when that is why it failed."""
    found = _OUT_OF_MEMORY.search(message)
    if not found:
        return None
    needed, unit, available, other = [g for g in found.groups() if g is not None]
    power = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
    return {
        "needed_bytes": int(float(needed) * 1024 ** power[unit]),
        "available_bytes": int(float(available) * 1024 ** power[other]),
    }


def _read_schedule(folder: str) -> str:
    """The main module's schedule: the largest of the dumps."""
    found = glob.glob(os.path.join(folder, "*schedule.txt"))
    if not found:
        raise CompilerError("the compiler wrote no schedule.txt")
    with open(max(found, key=os.path.getsize), encoding="utf-8", errors="replace") as file:
        return file.read()


def fingerprint(model: Model, options: Any) -> str:
    """sha256 of the unsharded program's StableHLO without locations."""
    step = model.build(options, None, (), "all_gather_kv", flash=False)
    text = jaxapi.stablehlo_text(lower(step, Seconds()))
    return hashlib.sha256(text.encode()).hexdigest()


def default_mesh_coords(slice_name: str, shape: tuple[int, ...]) -> list[list[int]]:
    """Coordinates in row-major mesh order of the mesh ``jax.make_mesh`` would build."""
    devices = slice_devices(slice_name)
    if math.prod(shape) != len(devices):
        raise UserError(f"mesh {list(shape)} does not fill the {len(devices)} of {slice_name}")
    try:
        mesh = jaxapi.default_device_mesh(shape, devices)
    except (NotImplementedError, ValueError, AssertionError) as error:
        raise UnsupportedError(f"create_device_mesh refuses: {_first_line(error)}") from error
    return [list(jaxapi.device_coords(d)) for d in mesh.flatten()]
