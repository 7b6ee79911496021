"""Which device stands where: by chip coordinates, never by id (ids follow the runtime's order).

Coordinates are ``device.coords``, then ``core_on_chip`` where a chip has two devices, then
``slice_index`` where there are several slices: as in the plan (topology/slice.h).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aoizora.serving.errors import PlanError

Coordinates = tuple[int, ...]
CoordsOf = Mapping[Any, Sequence[int]] | Callable[[Any], Sequence[int]]

# What JAX calls the chips of a slice's kind (`device.device_kind`).
DEVICE_KINDS = {
    "v4": ("TPU v4",),
    "v5e": ("TPU v5 lite", "TPU v5e"),
    "v5p": ("TPU v5", "TPU v5p"),
    "v6e": ("TPU v6 lite", "TPU v6e"),
    "v7x": ("TPU7x", "TPU v7x"),
}
SHOWN = 4  # coordinates in a message


def _padded(coords: Iterable[int], width: int) -> Coordinates:
    """Trailing coordinates that are left out are 0 (a v5e chip is (x, y) or (x, y, 0))."""
    listed = tuple(int(c) for c in coords)
    return listed + (0,) * (width - len(listed))


def _shown(chips: Sequence[Coordinates]) -> str:
    more = f" and {len(chips) - SHOWN} more" if len(chips) > SHOWN else ""
    return ", ".join(map(str, chips[:SHOWN])) + more


def device_coordinates(devices: Sequence[Any]) -> list[Coordinates]:
    """The coordinates that the runtime reports."""
    for device in devices:
        if getattr(device, "coords", None) is None:
            raise PlanError(
                f"{device} has no chip coordinates (platform "
                f"{getattr(device, 'platform', 'unknown')}); to try a plan on other devices pass "
                "coords_of, as plan.mesh(devices, coords_of=plan.virtual_coords(devices))"
            )
    chips = [tuple(int(c) for c in device.coords) for device in devices]
    slices = [int(getattr(device, "slice_index", 0) or 0) for device in devices]
    if len(set(zip(chips, slices, strict=True))) < len(devices):
        cores = [int(getattr(device, "core_on_chip", 0) or 0) for device in devices]
        chips = [(*chip, core) for chip, core in zip(chips, cores, strict=True)]
    if len(set(slices)) > 1:
        chips = [(*chip, number) for chip, number in zip(chips, slices, strict=True)]
    return chips


def check_kind(slice_name: str, devices: Sequence[Any]) -> None:
    """Refuses TPUs of another kind; a spelling that no kind is known by is let through."""
    kind = slice_name.partition(":")[0]
    for device in devices:
        if getattr(device, "platform", "") != "tpu":
            continue
        is_kind = next(
            (k for k, names in DEVICE_KINDS.items() if device.device_kind in names), kind
        )
        if kind in DEVICE_KINDS and is_kind != kind:
            raise PlanError(
                f"the plan is for {slice_name}, these devices are {device.device_kind} "
                f"({is_kind}); plan again with --slice {is_kind}:…"
            )


def _box(chips: Iterable[Coordinates]) -> tuple[Coordinates, Coordinates]:
    """Lowest corner and sizes of the chips' box, without trailing sizes of 1 beyond two."""
    axes = list(zip(*(chip[:3] for chip in chips), strict=True))
    low = tuple(map(min, axes))
    sizes = [max(axis) - start + 1 for axis, start in zip(axes, low, strict=True)]
    while len(sizes) > 2 and sizes[-1] == 1:
        sizes.pop()
    return low, tuple(sizes)


def _explain(slice_name: str, wanted: set[Coordinates], found: set[Coordinates]) -> str:
    missing, extra = sorted(wanted - found), sorted(found - wanted)
    low, sizes = _box(found)
    shape = "x".join(map(str, sizes))
    origin = f", starting at {low}" if any(low) else ""
    parts = [
        f"these devices are another slice than the plan's {slice_name}: "
        f"{len(found)} devices on {shape} chips{origin}; the plan has {len(wanted)}"
    ]
    if missing:
        parts.append(f"no device at {_shown(missing)}")
    if extra:
        parts.append(f"not in the plan: {_shown(extra)}")
    if origin or math.prod(sizes) > len(found):
        parts.append("pass the devices of one whole slice")
    else:
        parts.append(f"plan again with --slice {slice_name.partition(':')[0]}:{shape}")
    return "; ".join(parts)


def in_plan_order(
    slice_name: str,
    order: Sequence[Coordinates],
    devices: Sequence[Any],
    coords_of: CoordsOf | None,
) -> list[Any]:
    """The devices in the plan's order; PlanError where they are not the plan's slice."""
    if not devices:
        raise PlanError("no devices to make a mesh of")
    check_kind(slice_name, devices)
    if coords_of is None:
        chips = device_coordinates(devices)
    elif isinstance(coords_of, Mapping):
        unknown = [device for device in devices if device not in coords_of]
        if unknown:
            raise PlanError(f"coords_of has no coordinates for {unknown[0]}")
        chips = [tuple(coords_of[device]) for device in devices]
    else:
        chips = [tuple(coords_of(device)) for device in devices]
    width = max(len(chip) for chip in (*order, *chips))
    at: dict[Coordinates, Any] = {}
    for device, chip in zip(devices, chips, strict=True):
        padded = _padded(chip, width)
        if padded in at:
            raise PlanError(f"{at[padded]} and {device} have the same coordinates {chip}")
        at[padded] = device
    wanted = [_padded(chip, width) for chip in order]
    if set(wanted) != set(at):
        raise PlanError(_explain(slice_name, set(wanted), set(at)))
    return [at[chip] for chip in wanted]
