"""The referee's side: what jaxlib's own parser says, read from its protocol buffers.

Nothing here knows our reader. Field numbers are those of xla/service/hlo.proto and
xla/xla_data.proto; groups are expanded with numpy from the definitions in xla_data.proto.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
    "send",
    "recv",
)

# xla/xla_data.proto PrimitiveType: number -> (name, bits).
TYPES = {
    1: ("pred", 8), 2: ("s8", 8), 3: ("s16", 16), 4: ("s32", 32), 5: ("s64", 64), 6: ("u8", 8),
    7: ("u16", 16), 8: ("u32", 32), 9: ("u64", 64), 10: ("f16", 16), 11: ("f32", 32),
    12: ("f64", 64),
    15: ("c64", 64), 16: ("bf16", 16), 18: ("c128", 128), 19: ("f8e5m2", 8), 20: ("f8e4m3fn", 8),
    21: ("s4", 4), 22: ("u4", 4), 23: ("f8e4m3b11fnuz", 8), 24: ("f8e5m2fnuz", 8),
    25: ("f8e4m3fnuz", 8), 26: ("s2", 2), 27: ("u2", 2), 28: ("f8e4m3", 8), 29: ("f8e3m4", 8),
    30: ("s1", 1), 31: ("u1", 1), 32: ("f4e2m1fn", 4), 33: ("f8e8m0fnu", 8),
}  # fmt: skip
TUPLE, OPAQUE, TOKEN = 13, 14, 17

Message = dict[int, list[Any]]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A base-128 number and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def decode(data: bytes) -> Message:
    """One message: field number -> its values (int, or bytes for strings and messages)."""
    message: Message = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        message.setdefault(key >> 3, []).append(value)
    return message


def numbers(message: Message, number: int) -> list[int]:
    """A repeated integer field, packed or not."""
    found: list[int] = []
    for value in message.get(number, []):
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            one, at = varint(value, at)
            found.append(one)
    return [one - (1 << 64) if one >= 1 << 63 else one for one in found]


def shape_bytes(data: bytes) -> int:
    """Bytes without padding; below a byte an array is packed."""
    shape = decode(data)
    kind = shape.get(2, [0])[0]
    if kind == TUPLE:
        return sum(shape_bytes(part) for part in shape.get(4, []))
    if kind in (TOKEN, OPAQUE):
        return 0
    bits = TYPES[kind][1]
    if 5 in shape:
        bits = decode(shape[5][0]).get(9, [0])[0] or bits  # layout.element_size_in_bits
    sizes = numbers(shape, 3)
    if any(size < 0 for size in sizes):  # unbounded
        return 0
    return (int(np.prod(sizes, dtype=object)) * bits + 7) // 8


def expand_mesh(data: bytes) -> list[list[int]]:
    """MeshAxesReplicaGroupList: axes (2) of a mesh (1: axes; 2: device ids; 3: iota)."""
    group_list = decode(data)
    mesh = decode(group_list[1][0])
    sizes = [decode(axis).get(2, [0])[0] for axis in mesh.get(1, [])]
    ids = np.arange(int(np.prod(sizes)))
    for listed in mesh.get(3, []):
        iota = decode(listed)
        ids = ids.reshape(numbers(iota, 1)).transpose(numbers(iota, 2)).ravel()
    if 2 in mesh:
        ids = np.array(numbers(mesh, 2))
    # Each axis split into (pre, size, rest); a whole axis is (1, size, 1).
    split: list[tuple[int, int, int]] = [(1, size, 1) for size in sizes]
    order: list[int] = []
    for reference in group_list.get(2, []):
        axis = decode(reference)
        index = axis.get(1, [0])[0]
        if 2 in axis:
            sub = decode(axis[2][0])
            pre, size = sub.get(1, [1])[0], sub.get(2, [1])[0]
            split[index] = (pre, size, sizes[index] // (pre * size))
        order.append(3 * index + 1)
    grid = ids.reshape([part for axis in split for part in axis])
    rest = [dim for dim in range(grid.ndim) if dim not in order]
    inside = int(np.prod([grid.shape[dim] for dim in order], dtype=int))
    result: list[list[int]] = grid.transpose(rest + order).reshape(-1, inside).tolist()
    return result


def expand_iota(data: bytes) -> list[list[int]]:
    """IotaReplicaGroupListProto: groups (1), size (2), reshape (3), transpose (4)."""
    iota = decode(data)
    groups, size = iota[1][0], iota[2][0]
    reshape, order = numbers(iota, 3), numbers(iota, 4)
    ids = np.arange(groups * size).reshape(reshape).transpose(order)
    result: list[list[int]] = ids.reshape(groups, size).tolist()
    return result


@dataclass
class Op:
    """One instruction as jaxlib sees it."""

    name: str
    opcode: str
    shape: str
    bytes: int
    operands: list[str]
    called: int
    groups: list[list[int]] | None = None
    pairs: list[list[int]] = field(default_factory=list)


def groups_of(message: Message) -> list[list[int]] | None:
    """Replica groups in whichever field the version uses; None when none are written."""
    if 93 in message:
        return expand_mesh(message[93][0])
    if 92 in message:
        return expand_iota(message[92][0])
    if 87 in message:  # CollectiveDeviceListProto: groups (1), iota (2)
        devices = decode(message[87][0])
        if 2 in devices:
            return expand_iota(devices[2][0])
        return [numbers(decode(group), 1) for group in devices.get(1, [])]
    if 49 in message:
        return [numbers(decode(group), 1) for group in message[49]]
    return None


def read_op(instruction: Any) -> Op:
    """jaxlib's HloInstruction, taken apart."""
    message = decode(instruction.as_serialized_proto())
    return Op(
        name=message[1][0].decode(),
        opcode=message[2][0].decode(),
        shape=str(instruction.shape),
        bytes=shape_bytes(message[3][0]),
        operands=[operand.name for operand in instruction.operands()],
        called=len(numbers(message, 38)),
        groups=groups_of(message),
        pairs=[
            [pair.get(1, [0])[0], pair.get(2, [0])[0]]
            for pair in (decode(value) for value in message.get(52, []))
        ],
    )
