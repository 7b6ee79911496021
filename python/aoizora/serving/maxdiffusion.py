"""A plan in the words of MaxDiffusion's Wan configuration.

Written against configs/base_wan_14b.yml, pyconfig.py and max_utils.py of August 2026
(github.com/AI-Hypercomputer/maxdiffusion, 7cfb8801): the mesh has four axes in a fixed order, sizes
come from ``ici_*_parallelism``, and devices from ``create_device_mesh``, which a configuration
can't order; ``device_array`` is for that.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aoizora.axis_rules import Rules, spelled_out
from aoizora.serving.errors import PlanError

if TYPE_CHECKING:
    from aoizora.serving.plan import Plan

AXES = ("data", "fsdp", "context", "tensor")
# Names of the kernels in its KERNEL_REGISTRY. "ring" is documented there but not registered.
ATTENTION = {
    "head_parallel": "flash",
    "all_gather_kv": "flash",
    "ulysses": "ulysses",
    "ring": "tokamax_ring",
    "usp": "ulysses_ring",
}
# Logical axes of its Wan transformer and VAE. NNX takes one without a rule for a mesh axis and
# fails, so those that the plan does not shard get a rule that says so.
LOGICAL = (
    "activation_embed",
    "activation_kv",
    "conv_batch",
    "conv_out",
    "embed",
    "heads",
    "hidden",
    "mlp",
    "norm",
    "out_channels",
)
# Its flash kernel works on whole keys; its own SEQUENCE_PARALLEL_AXIS_RULES say so too.
WHOLE_KEYS = ("activation_self_attn_kv_length", "activation_cross_attn_kv_length")


@dataclass(frozen=True)
class Translated:
    """Mesh sizes by MaxDiffusion's axes, the rules in them, and which plan axes an axis joins."""

    sizes: dict[str, int]
    rules: Rules
    parts: dict[str, tuple[str, ...]]
    ulysses_shards: int


def _joined(plan: Plan) -> tuple[str, ...]:
    """The two axes [ring, ulysses] that its ulysses_ring makes of ``context`` by itself."""
    if plan.attention != "usp":
        return ()
    pairs = [axes for logical, axes in plan.rules if logical == "activation_length"]
    if not pairs or len(pairs[0]) != 2:
        raise PlanError("usp needs a rule of activation_length with two mesh axes [ring, ulysses]")
    return pairs[0]


def _rename(rules: Rules, joined: tuple[str, ...]) -> Rules:
    """Rules in which ``context`` stands for the joined axes."""
    if not joined:
        return rules
    renamed: list[tuple[str, tuple[str, ...]]] = []
    for logical, axes in rules:
        at = axes.index(joined[0]) if joined[0] in axes else -1
        rest = axes if at < 0 else (*axes[:at], "context", *axes[at + 2 :])
        if (at >= 0 and axes[at : at + 2] != joined) or joined[1] in rest:
            raise PlanError(
                f"MaxDiffusion has one axis `context` for {joined[0]} and {joined[1]}; the rule of "
                f"`{logical}` splits them"
            )
        renamed.append((logical, rest))
    return tuple(renamed)


def translate(plan: Plan) -> Translated:
    """The plan on the axes data, fsdp, context, tensor; PlanError where it has others."""
    if plan.attention not in ATTENTION:
        raise PlanError(
            f"MaxDiffusion has no attention {plan.attention!r}; known: {', '.join(ATTENTION)}"
        )
    if "+" in plan.slice:
        raise PlanError("a plan over several slices can't be written for MaxDiffusion")
    joined = _joined(plan)
    size = dict(zip(plan.mesh_axes, plan.mesh_shape, strict=True))
    parts: dict[str, tuple[str, ...]] = {
        axis: (axis,) if axis in size and axis not in joined else () for axis in AXES
    }
    if joined and parts["context"]:
        raise PlanError(
            f"MaxDiffusion has one axis `context`; the plan has it beside {' and '.join(joined)}"
        )
    parts["context"] = joined or parts["context"]
    known = {axis for group in parts.values() for axis in group}
    for axis in plan.mesh_axes:
        if axis not in known:
            raise PlanError(
                f"MaxDiffusion's mesh has the axes {', '.join(AXES)}; the plan has `{axis}`"
            )
    return Translated(
        sizes={axis: math.prod(size[a] for a in parts[axis]) for axis in AXES},
        rules=_rename(spelled_out(plan.rules), joined),
        parts=parts,
        ulysses_shards=size[joined[1]] if joined else -1,
    )


def _rules(plan: Plan, found: Translated) -> Rules:
    """Ours, whole keys for its flash kernel, its name for the batch, and all of its own axes."""
    rules = found.rules
    if ATTENTION[plan.attention] == "flash":
        # First, because the first rule of a name wins.
        rules = (
            *((name, ()) for name in WHOLE_KEYS),
            *(r for r in rules if r[0] not in WHOLE_KEYS),
        )
    batch = tuple(("batch", axes) for logical, axes in rules if logical == "activation_batch")
    named = {logical for logical, _ in rules}
    rules = rules if "batch" in named else batch + rules
    return (*rules, *((logical, ()) for logical in LOGICAL if logical not in named))


def _lines(plan: Plan, found: Translated) -> list[str]:
    kernel = ATTENTION[plan.attention]
    rules = ",\n".join(
        f"  {json.dumps([logical, list(axes) or None])}" for logical, axes in _rules(plan, found)
    )
    lines = [
        f"mesh_axes: {json.dumps(list(AXES))}",
        "logical_axis_rules: [",
        rules,
        "]",
        f"data_sharding: [{json.dumps(list(AXES))}]",
        *(f"ici_{axis}_parallelism: {found.sizes[axis]}" for axis in AXES),
        *(f"dcn_{axis}_parallelism: 1" for axis in AXES),
        "# so that MaxDiffusion's own device order works too, at its own speed",
        "allow_split_physical_axes: True",
        f"attention: {json.dumps(kernel)}",
    ]
    if kernel == "flash":
        lines += [
            "# True would put rules before these that keep the heads of self-attention whole",
            "attention_sharding_uniform: False",
        ]
    if kernel == "ulysses_ring":
        lines.append(f"ulysses_shards: {found.ulysses_shards}")
    if kernel != "flash" and found.sizes["tensor"] > 1:
        lines.append(
            f"# NOTE: with {kernel} MaxDiffusion puts rules before these that keep attention heads "
            f"whole;\n# the plan splits them over tensor={found.sizes['tensor']}, so expect a "
            "slower step than predicted"
        )
    return lines


def yaml_of(plan: Plan) -> str:
    """Settings that replace those of a base_wan_*.yml when they stand after them."""
    lines = [
        "# Sharding of a plan of AoiZora; append to a copy of MaxDiffusion's base_wan_*.yml.",
        # JSON quotes keep a name from a file within its comment.
        f"# model {json.dumps(plan.model)}, slice {json.dumps(plan.slice)}",
        "# The device order is not here: see plan.maxdiffusion_devices in docs/serving.md.",
        *_lines(plan, translate(plan)),
    ]
    return "\n".join(lines) + "\n"


def device_array(plan: Plan, devices: Any) -> Any:
    """The plan's device array with MaxDiffusion's axes: every shard stays on its chip."""
    found = translate(plan)
    order = [plan.mesh_axes.index(a) for axis in AXES for a in found.parts[axis]]
    return devices.transpose(order).reshape([found.sizes[axis] for axis in AXES])
