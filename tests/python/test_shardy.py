"""The local program is what the planner costs: its numbers must be those of the model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from local_runner import run_local
from wan_helpers import RULES, TINY, make_inputs, make_mesh, make_run, tiny_params, unsharded

from aoizora import jaxapi
from aoizora.errors import UnsupportedError
from aoizora.models import wan
from aoizora.models.rules import Rules, parse_rules
from aoizora.models.wan_params import is_param, param_specs
from aoizora.shardy_check import find_problems

# chlo.square becomes a multiply, which is exact; a text-only model has no other CHLO operation.
CFG = replace(TINY, layers=2)


# The default rules of MaxDiffusion's Wan configurations, but for the batch, which it puts on
# [data, fsdp]: 2 samples do not divide by 4. XLA's own partitioner (CPU, jax 0.12.0) computes
# wrong numbers for a scan over weights sharded like this ``embed``; Shardy's program is right.
MAXDIFFUSION = parse_rules(
    [
        ["batch", ["data", "fsdp"]],
        ["activation_batch", ["data"]],
        ["activation_self_attn_heads", ["context", "tensor"]],
        ["activation_cross_attn_q_length", ["context", "tensor"]],
        ["activation_length", "context"],
        ["activation_heads", "tensor"],
        ["mlp", "tensor"],
        ["embed", ["context", "fsdp"]],
        ["heads", "tensor"],
        ["norm", "tensor"],
        ["conv_batch", ["data", "context", "fsdp"]],
        ["out_channels", "tensor"],
        ["conv_out", "context"],
    ]
)


@pytest.mark.parametrize(
    ("attention", "axes", "rules"),
    [
        ("all_gather_kv", {"data": 2, "context": 2, "tensor": 2}, RULES),
        ("ulysses", {"data": 1, "context": 4, "tensor": 2}, RULES),
        ("ring", {"data": 2, "context": 4, "tensor": 1}, RULES),
        ("all_gather_kv", {"data": 2, "fsdp": 2, "context": 2, "tensor": 2}, MAXDIFFUSION),
    ],
    ids=["all_gather_kv", "ulysses", "ring", "maxdiffusion"],
)
def test_local_program_of_wan_equals_the_model(
    attention: str, axes: dict[str, int], rules: Rules
) -> None:
    mesh = make_mesh(**axes)
    run = make_run(CFG, mesh, attention, rules=rules)
    where = functools.partial(run.sharder.sharding, "argument")
    params = jax.tree.map(
        lambda p, x: jax.device_put(x, where(p.shape, p.axes)),
        param_specs(CFG),
        tiny_params(CFG),
        is_leaf=is_param,
    )
    inputs = [
        jax.device_put(x, where(x.shape, ("activation_batch",) + (None,) * (x.ndim - 1)))
        for x in make_inputs(CFG)
    ]
    whole = NamedSharding(mesh, PartitionSpec())
    step = jax.jit(functools.partial(wan.forward, run), out_shardings=whole)
    lowered = step.lower(params, *inputs)
    made = run_local(lowered, mesh, (params, *inputs))
    assert float(jnp.abs(made - unsharded(CFG)).max()) <= 1e-4


def lowered_on(fn: Callable[[Any], Any], spec: PartitionSpec) -> tuple[Any, Any, jax.Array]:
    """``fn`` of an 8 x 8 array sharded 2 x 4, lowered, with mesh and argument."""
    mesh = make_mesh(a=2, b=4)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(8, 8)), jnp.float32)
    x = jax.device_put(x, NamedSharding(mesh, PartitionSpec("a", "b")))
    return jax.jit(fn, out_shardings=NamedSharding(mesh, spec)).lower(x), mesh, x


RIGHT: dict[str, Callable[[Any], Any]] = {
    "matmul": lambda x: x @ x,
    "concatenate": lambda x: jnp.concatenate([x, 2 * x], 1),
    "iota": lambda x: x + jax.lax.broadcasted_iota(jnp.float32, x.shape, 1),
    "sort": lambda x: jnp.sort(x, 1),
    "gather": lambda x: x[:, jnp.array([3, 1, 0, 7])],
    "softmax": lambda x: jax.nn.softmax(x, 1),
    "merge": lambda x: x.reshape(4, 16),
    "scatter": lambda x: x.at[:, jnp.array([1, 5])].set(0.0),
    "transpose": lambda x: x.T,
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y @ x, x),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_shardy_gets_right(name: str) -> None:
    lowered, mesh, x = lowered_on(RIGHT[name], PartitionSpec(None, "b"))
    np.testing.assert_allclose(run_local(lowered, mesh, x), RIGHT[name](x), rtol=1e-3, atol=1e-3)


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "reverse": (lambda x: x[:, ::-1], "stablehlo.reverse along dimension 1"),
    "pad": (lambda x: jnp.pad(x, ((0, 0), (4, 4))), "stablehlo.pad along dimension 1"),
    "convolution": (
        lambda x: jax.lax.conv_general_dilated(x[:, None], jnp.ones((1, 1, 3)), (1,), "SAME")[:, 0],
        "stablehlo.convolution along dimension 2",
    ),
    "window": (
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 3), (1, 1), "SAME"),
        "stablehlo.reduce_window along dimension 1",
    ),
    "cumsum": (lambda x: jnp.cumsum(x, 1), "stablehlo.reduce_window along dimension 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_shardy_gets_wrong_is_found(name: str) -> None:
    fn, message = WRONG[name]
    lowered, _, _ = lowered_on(fn, PartitionSpec(None, "b"))
    module = jaxapi.lowered_module(lowered)
    jaxapi.run_passes(module, jaxapi.SHARDY_PIPELINE[:2])
    assert any(message in p for p in find_problems(jaxapi.sharded_ops(module)))


def test_sizes_that_do_not_divide_are_found() -> None:
    """Converting such a program aborts the process."""
    lowered, _, _ = lowered_on(
        lambda x: jnp.concatenate([x, x[:, :1]], 1) @ jnp.ones((9, 8)), PartitionSpec(None, "b")
    )
    module = jaxapi.lowered_module(lowered)
    jaxapi.run_passes(module, jaxapi.SHARDY_PIPELINE[:2])
    problems = find_problems(jaxapi.sharded_ops(module))
    assert any("does not divide by its 4 shards" in p for p in problems)


def test_a_refusal_of_shardy_is_reported_in_one_line() -> None:
    lowered, _, _ = lowered_on(lambda x: x[:, :4], PartitionSpec(None, "b"))
    with pytest.raises(UnsupportedError, match=r"Shardy refuses: 'stablehlo\.slice' op"):
        jaxapi.run_passes(jaxapi.lowered_module(lowered))


def test_image_model_is_costed_with_a_note() -> None:
    cfg = replace(TINY, image_dim=20, image_tokens=5)
    step = jax.jit(functools.partial(wan.forward, make_run(cfg)))
    module = jaxapi.lowered_module(step.lower(tiny_params(cfg), *make_inputs(cfg)))
    notes, unknown = jaxapi.replace_chlo(module)
    assert not unknown
    assert any("tanh" in n for n in notes)


def test_first_rule_wins_and_a_mesh_axis_is_used_once() -> None:
    rules = parse_rules([["heads", ["tensor"]], ["mlp", "tensor"], ["mlp", ["data"]]])
    run = make_run(CFG, make_mesh(data=2, context=1, tensor=4), rules=(*rules, *RULES[:2]))
    assert run.sharder.spec(("mlp", "heads")) == PartitionSpec("data", "tensor")
    assert run.sharder.spec(("mlp", None)) == PartitionSpec("tensor", None)
