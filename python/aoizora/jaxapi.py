"""Every call into JAX that is not public API, in one place.

When JAX moves, tests/python/test_jaxapi.py names the function here that broke. Nothing else in
this package may import ``jax._src``, ``jaxlib`` or a private name.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils, topologies
from jax.experimental.pallas.ops.tpu import flash_attention as pallas_flash

from aoizora.errors import UnsupportedError

# Shardy from annotated global shapes to local shapes with explicit collectives. Order matters:
# reshards must be explicit before they can become collectives, and only then is every operation
# local enough to be given local shapes.
SHARDY_PIPELINE = (
    "builtin.module(sdy-propagation-pipeline)",
    "builtin.module(func.func(sdy-insert-explicit-reshards{enable-full-version=true}))",
    "builtin.module(func.func(sdy-reshard-to-collectives))",
    "builtin.module(sdy-convert-global-to-local)",
)


# libtpu's compile-only v4 has no megacore: each of the two cores is a device of its own.
TWO_DEVICES_PER_CHIP = ("TPU v4", "TPU7x")


@functools.lru_cache(maxsize=8)
def tpu_devices(topology_name: str) -> tuple[Any, ...]:
    """Compile-only TPU devices of a slice, in the compiler's default order."""
    topology = topologies.get_topology_desc(platform="tpu", topology_name=topology_name)
    return tuple(topology.devices)


def device_coords(device: Any) -> tuple[int, ...]:
    """Chip coordinates of a device, with the core appended where a chip has several devices."""
    coords = tuple(int(c) for c in device.coords)
    core = int(getattr(device, "core_on_chip", 0))
    return (*coords, core) if device.device_kind in TWO_DEVICES_PER_CHIP else coords


def default_device_mesh(shape: tuple[int, ...], devices: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """The order ``jax.make_mesh`` gives: ``create_device_mesh`` with splitting allowed."""
    mesh: np.ndarray[Any, Any] = mesh_utils.create_device_mesh(
        shape, list(devices), allow_split_physical_axes=True
    )
    return mesh


def lowered_module(lowered: Any) -> Any:
    """The MLIR module (StableHLO with Shardy annotations) of a ``jax.stages.Lowered``."""
    return lowered.compiler_ir(dialect="stablehlo")


def stablehlo_text(lowered: Any) -> str:
    """StableHLO without source locations, so that moving a line changes nothing."""
    return str(lowered_module(lowered).operation.get_asm(enable_debug_info=False))


def _walk(module: Any) -> list[Any]:
    """All operations, as a list: a walk must not see its own changes."""
    from jaxlib.mlir import ir

    found: list[Any] = []

    def visit(op: Any) -> Any:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def replace_chlo(module: Any) -> tuple[list[str], list[str]]:
    """Rewrites CHLO operations in place; returns notes and the names it can't rewrite.

    jaxlib registers no pass for this, and Shardy leaves CHLO results with global types. A square
    becomes a multiply; another elementwise one a tanh, which costs about the same: the local
    program is read for its cost, never run.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    notes: set[str] = set()
    unknown: set[str] = set()
    with module.context:
        for op in _walk(module):
            name = str(op.name)
            if not name.startswith("chlo."):
                continue
            if [v.type for v in op.operands] != [v.type for v in op.results]:
                unknown.add(name)
                continue
            x = op.operands[0]
            with ir.InsertionPoint(op), op.location:
                square = name == "chlo.square"
                new = stablehlo.multiply(x, x) if square else stablehlo.tanh(x)
            if not square:
                notes.add(f"{name} stands as stablehlo.tanh, for its cost")
            op.results[0].replace_all_uses_with(new)
            op.erase()
    return sorted(notes), sorted(unknown)


@dataclass(frozen=True)
class ShardedOp:
    """One result of an operation that Shardy gave a sharding: global shape, shards per dim."""

    name: str
    shape: tuple[int, ...]
    shards: tuple[int, ...]
    attributes: Any

    def integers(self, name: str) -> list[int]:
        """An array attribute of integers; empty when it is absent."""
        from jaxlib.mlir import ir

        if name not in self.attributes:
            return []
        return [int(n) for n in ir.DenseI64ArrayAttr(self.attributes[name])]


def _mesh_sizes(module: Any) -> dict[str, int]:
    from jaxlib.mlir.dialects import sdy

    sizes: dict[str, int] = {}
    for op in module.body.operations:
        if op.operation.name == "sdy.mesh":
            axes = map(sdy.MeshAxisAttr, sdy.MeshAttr(op.attributes["mesh"]).axes)
            sizes |= {a.name: a.size for a in axes}
    return sizes


def _shards(dimension: Any, sizes: dict[str, int]) -> int:
    from jaxlib.mlir.dialects import sdy

    axes = [sdy.AxisRefAttr(a) for a in sdy.DimensionShardingAttr(dimension).axes]
    return math.prod(
        sdy.SubAxisInfoAttr(a.sub_axis_info).size if a.sub_axis_info else sizes[a.name]
        for a in axes
    )


def sharded_ops(module: Any) -> list[ShardedOp]:
    """The annotated results of a module between Shardy's reshards and its local shapes."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    found: list[ShardedOp] = []
    with module.context:
        sizes = _mesh_sizes(module)
        for op in _walk(module):
            if "sdy.sharding" not in op.attributes or not op.name.startswith("stablehlo."):
                continue
            per_value = sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"])
            for result, sharding in zip(op.results, per_value.shardings, strict=True):
                dims = sdy.TensorShardingAttr(sharding).dimension_shardings
                shards = tuple(_shards(d, sizes) for d in dims)
                shape = tuple(ir.RankedTensorType(result.type).shape)
                found.append(ShardedOp(str(op.name), shape, shards, op.attributes))
    return found


def run_passes(module: Any, pipelines: tuple[str, ...] = SHARDY_PIPELINE) -> None:
    """Runs MLIR pass pipelines on a module, in place."""
    from jaxlib.mlir import ir, passmanager

    with module.context:
        for pipeline in pipelines:
            try:
                passmanager.PassManager.parse(pipeline).run(module.operation)
            except ir.MLIRError as error:
                raise UnsupportedError(f"Shardy refuses: {_diagnosis(error)}") from error


def _diagnosis(error: Exception) -> str:
    """What the compiler says after the chain of source locations."""
    text = " ".join(str(error).split())
    found = re.search(r"'[a-z_.]+' op .*?(?= note:|$)", text)
    return (found.group(0) if found else text)[:300]


def generic_text(module: Any) -> str:
    """A module in MLIR's generic form, which has one grammar for all dialects."""
    return str(module.operation.get_asm(print_generic_op_form=True, enable_debug_info=False))


@functools.partial(jax.jit, static_argnames=("scale", "blocks"))
def flash_with_residuals(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    segment_ids: Any,
    *,
    scale: float,
    blocks: Any,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Pallas flash attention that also returns the softmax sums.

    q [B, H, Lq, D], k and v [B, H, Lk, D] -> out [B, H, Lq, D] (normalised), l and m
    [B, H, Lq] float32 (sum of exponents, maximum). The public wrapper drops l and m.
    """
    out, l_sum, m_max = pallas_flash._flash_attention_impl(
        q,
        k,
        v,
        None,
        segment_ids,
        True,
        False,
        scale,
        blocks.block_b,
        blocks.block_q,
        blocks.block_k_major,
        blocks.block_k,
        False,
    )
    return out, l_sum, m_max


def generic_from_mlir(data: bytes) -> str:
    """MLIR text in any form, MLIR bytecode or a portable StableHLO artefact, in the generic form.

    Raises ValueError with MLIR's own diagnosis when it does not parse.
    """
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with jax_mlir.make_ir_context() as context:
        try:
            if data.startswith(b"ML\xefR") and b"StableHLO_v" in data[:64]:
                module = stablehlo.deserialize_portable_artifact(context, data)
            else:
                module = ir.Module.parse(data)
        except Exception as error:
            raise ValueError(_diagnosis(error)) from None
        return generic_text(module)
