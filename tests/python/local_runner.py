"""Runs Shardy's local program on virtual CPU devices, to see whether its numbers are right.

The local module is inlined into a ``shard_map``, where its shapes and collectives mean what they
say. Test code only: it uses private JAX API that the package itself does not need.
"""

from __future__ import annotations

import math
import re
from typing import Any

import jax
import numpy as np
from jax._src import core
from jax._src.interpreters import mlir
from jax.extend.core import Primitive
from jax.sharding import Mesh
from jaxlib.mlir import ir

from aoizora import jaxapi

_call = Primitive("aoizora_local_call")
_call.multiple_results = True
_call.def_abstract_eval(lambda *args, text, avals: list(avals))


def _lower(ctx: Any, *args: Any, text: str, avals: Any) -> Any:
    module = ir.Module.parse(text, context=ctx.module_context.context)
    name = mlir.merge_mlir_modules(
        ctx.module_context.module, "local", module, dst_symtab=ctx.module_context.symbol_table
    )
    types = [mlir.aval_to_ir_type(ctx.module_context, a) for a in ctx.avals_out]
    return mlir.func_dialect.CallOp(types, ir.FlatSymbolRefAttr.get(name), args).results


mlir.register_lowering(_call, _lower)


def _groups(mesh: Mesh, axes: str) -> str:
    """Explicit device groups of ``axis_ref`` text; sub-axes are (devices before them)size."""
    refs = re.findall(r'name = "(\w+)"(?:, sub_axis_info = \((\d+)\)(\d+))?', axes)
    cuts = {name: {1, size} for name, size in mesh.shape.items()}
    for name, before, size in refs:
        if before:
            cuts[name] |= {int(before), int(before) * int(size)}
    parts = [
        (name, low, high // low)
        for name in mesh.shape
        for low, high in zip(sorted(cuts[name]), sorted(cuts[name])[1:], strict=False)
    ]
    chosen: list[int] = []
    for name, before, size in refs:
        low = int(before) if before else 1
        high = low * int(size) if before else mesh.shape[name]
        chosen += [i for i, p in enumerate(parts) if p[0] == name and low <= p[1] < high]
    rest = [i for i in range(len(parts)) if i not in chosen]
    ids = np.arange(mesh.size).reshape([p[2] for p in parts]).transpose(rest + chosen)
    table = ids.reshape(-1, math.prod(parts[i][2] for i in chosen))
    return f"dense<{table.tolist()}> : tensor<{table.shape[0]}x{table.shape[1]}xi64>"


def _self_contained(text: str, mesh: Mesh) -> str:
    """Drops shardings, which are done with, and spells groups out: no mesh is referred to."""
    text = "\n".join(line for line in text.split("\n") if '"sdy.mesh"' not in line)
    text = re.sub(r"sdy\.sharding = #sdy\.sharding_per_value<\[.*?\]>\]>", "", text)
    text = re.sub(r"sdy\.sharding = #sdy\.sharding<@mesh, \[.*?\]>", "", text)
    text = re.sub(r", \}", "}", text).replace("{, ", "{").replace(", , ", ", ")
    groups = r"#stablehlo\.replica_group_mesh_axes<mesh = @mesh, axes = \[(.*?)\]>"
    return re.sub(groups, lambda m: _groups(mesh, m.group(1)), text)


def run_local(lowered: Any, mesh: Mesh, args: Any) -> Any:
    """Result (one array) of the local program of ``lowered``, for arguments already placed."""
    module = jaxapi.lowered_module(lowered)
    jaxapi.replace_chlo(module)
    jaxapi.run_passes(module)
    text = _self_contained(jaxapi.generic_text(module), mesh)
    out = lowered.out_info
    shape = out.sharding.shard_shape(out.shape)

    def body(*local: Any) -> Any:
        avals = (core.ShapedArray(shape, out.dtype),)
        return _call.bind(*local, text=text, avals=avals)[0]

    flat = jax.tree.leaves(args)
    specs = tuple(x.sharding.spec for x in flat)
    mapped = jax.shard_map(
        body, mesh=mesh, in_specs=specs, out_specs=out.sharding.spec, check_vma=False
    )
    return jax.jit(mapped)(*flat)
