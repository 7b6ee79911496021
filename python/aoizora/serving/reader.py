"""Reads a plan file with suspicion: every member that serving uses is checked and named.

The C++ reader (plan::from_json) checks the evidence too; this one stays without it so that a server
needs no compiled code. Limits: the file, the number of devices, and the length of every name.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from aoizora.axis_rules import Rules
from aoizora.serving.errors import PlanError

FORMAT = "aoizora.plan"
VERSION = 1
MAX_BYTES = 64 << 20  # a plan of 256 chips with 2,000 candidates is below 10 MB
MAX_DEVICES = 1 << 20  # as in the C++ reader
MAX_RULES = 4096
MAX_NAME = 4096
Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class Member:
    """A value of the document and its path, for messages."""

    path: str
    value: Any

    def fail(self, wanted: str) -> NoReturn:
        """Says what should be here."""
        shown = repr(self.value)
        raise PlanError(f"{self.path}: {wanted} expected, not {shown[:60]}")

    def at(self, name: str) -> Member:
        """The member of this name."""
        if not isinstance(self.value, dict):
            self.fail("an object")
        if name not in self.value:
            raise PlanError(f"{self.path}: member `{name}` is missing")
        return Member(f"{self.path}.{name}", self.value[name])

    def get(self, name: str, default: Any) -> Member:
        """The member of this name, or the default where it is missing."""
        if isinstance(self.value, dict) and name not in self.value:
            return Member(f"{self.path}.{name}", default)
        return self.at(name)

    def items(self, limit: int) -> list[Member]:
        """The elements of a list of 1 to ``limit``."""
        if not isinstance(self.value, list) or not self.value:
            self.fail("a list that is not empty")
        if len(self.value) > limit:
            raise PlanError(f"{self.path}: {len(self.value)} elements, at most {limit} are read")
        return [Member(f"{self.path}[{i}]", x) for i, x in enumerate(self.value)]

    def text(self) -> str:
        """A string of printable length."""
        if not isinstance(self.value, str):
            self.fail("a string")
        if len(self.value) > MAX_NAME:
            raise PlanError(f"{self.path}: a string of {len(self.value)} characters is no name")
        return self.value

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail("a whole number")
        if not low <= self.value <= high:
            # Never print the number itself: it may have a million digits.
            raise PlanError(f"{self.path}: a whole number from {low} to {high} expected")
        return self.value

    def microseconds(self) -> float:
        """A time, not negative."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            self.fail("a time in microseconds")
        if not 0 <= self.value <= 1e18:
            raise PlanError(f"{self.path}: a time in microseconds expected, from 0 to 1e18")
        return float(self.value)


def read_document(path: str | os.PathLike[str]) -> Member:
    """Parses the file; PlanError when it is missing, too large, or no JSON plan of this version."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PlanError(f"{name}: the plan cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise PlanError(f"{name}: more than {MAX_BYTES >> 20} MiB is no plan")
    try:
        document = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise PlanError(f"{name}: not a JSON file: {why[:200]}") from None
    root = Member(name, document)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PlanError(f'{name}: not a plan (its `format` is not "{FORMAT}")')
    version = root.at("version").integer(0, 1 << 31)
    if version != VERSION:
        newer = " or install a newer one" if version > VERSION else ""
        raise PlanError(
            f"{name}: plan version {version}, this AoiZora reads version {VERSION}; "
            f"plan again{newer}"
        )
    return root


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def read_mesh(root: Member) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Axis names and sizes; their product is the number of devices."""
    mesh = root.at("mesh")
    axes = tuple(axis.text() for axis in mesh.at("axes").items(16))
    shape = tuple(size.integer(1, MAX_DEVICES) for size in mesh.at("shape").items(16))
    if len(axes) != len(shape):
        raise PlanError(f"{mesh.path}: {len(axes)} axes but {len(shape)} sizes")
    for i, axis in enumerate(axes):
        if not axis or axis in axes[:i]:
            raise PlanError(f"{mesh.path}.axes[{i}]: axis {axis!r} is empty or repeated")
    if math.prod(shape) > MAX_DEVICES:
        raise PlanError(f"{mesh.path}.shape: more than {MAX_DEVICES} devices")
    return axes, shape


def read_rules(root: Member, axes: tuple[str, ...]) -> Rules:
    """The axis rules; each names axes of the mesh only, and none twice."""
    rules: list[tuple[str, tuple[str, ...]]] = []
    listed = root.at("axis_rules")
    if listed.value == []:
        return ()
    for rule in listed.items(MAX_RULES):
        if not isinstance(rule.value, list) or len(rule.value) != 2:
            rule.fail("[logical axis, [mesh axes]]")
        logical, names = rule.items(2)
        if not isinstance(names.value, list):
            names.fail("a list of mesh axes")
        chosen = tuple(name.text() for name in names.items(16)) if names.value else ()
        for axis in chosen:
            if axis not in axes:
                raise PlanError(
                    f"{rule.path}: the rule of `{logical.text()}` names `{axis}`, "
                    f"which is no axis of the mesh ({', '.join(axes)})"
                )
        if len(set(chosen)) != len(chosen):
            names.fail("each mesh axis once")
        rules.append((logical.text(), chosen))
    return tuple(rules)


def read_coords(root: Member, devices: int) -> tuple[Coordinates, ...]:
    """Chip coordinates of every position: as many as the mesh has, of one length, none twice."""
    listed = root.at("device_coords")
    items = listed.items(MAX_DEVICES)
    if len(items) != devices:
        raise PlanError(f"{listed.path}: the mesh has {devices} positions, the list {len(items)}")
    found: dict[Coordinates, int] = {}
    for position, item in enumerate(items):
        coords = tuple(n.integer(0, MAX_DEVICES) for n in item.items(5))
        if position and len(coords) != len(next(iter(found))):
            raise PlanError(f"{item.path}: {len(coords)} coordinates, the first has another number")
        if coords in found:
            raise PlanError(
                f"{listed.path}: chip {coords} is repeated, at positions {found[coords]} "
                f"and {position}"
            )
        found[coords] = position
    return tuple(found)


def check_slice(root: Member, coords: tuple[Coordinates, ...]) -> str:
    """The slice's name; where it tells a shape, the coordinates must fill it exactly.

    A slice from a graph file has no shape in its name, and is not checked further.
    """
    member = root.at("slice")
    name = member.text()
    found = re.fullmatch(r"[a-z0-9]+:(\d{1,5}(?:x\d{1,5}){1,2})(?:_twisted)?((?:\+[^+]+)*)", name)
    if not found:
        return name
    shape = tuple(int(n) for n in found[1].split("x"))
    chips = math.prod(shape) * (1 + found[2].count("+"))
    if chips == 0 or len(coords) not in (chips, 2 * chips):  # two devices a chip on v7x
        raise PlanError(
            f"{root.path}.device_coords: {len(coords)} positions, slice {name} has {chips} chips"
        )
    bounds = (*shape, 1, 1)[:3]
    for position, chip in enumerate(coords):
        if any(at >= size for at, size in zip(chip, bounds, strict=False)):
            raise PlanError(
                f"{root.path}.device_coords[{position}]: slice {name} has no chip {chip}"
            )
    return name
