"""One JAX process on one host of the testbed, started by `aoizora-testbed hosts`.

Told what to do through a FIFO, a line of JSON each: {"build": candidate}, {"steps": n},
{"stop": true}; answers through another.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HOST = int(os.environ.get("AOIZORA_HOST", "0"))
HOSTS = 8
# 16 x 8 x 16 latents in patches of 1 x 2 x 2: 512 tokens a sample; two samples, float32.
LATENT = (16, 8, 16)


def initialize() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    import jax

    jax.distributed.initialize("host0:29500", HOSTS, HOST)


def tiny_config() -> Any:
    from aoizora.models.wan_params import WanConfig

    return WanConfig(
        heads=8,
        layers=2,
        mlp=192,
        head_dim=24,
        in_channels=4,
        out_channels=4,
        text_dim=16,
        text_tokens=8,
        freq_dim=16,
        dtype="float32",
        token_block=4,
        shard_block=2,
    )


def put(shape: tuple[int, ...], sharding: Any, seed: int) -> Any:
    """The same random array on every process, each with its own part."""
    import jax

    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 0.02
    return jax.make_array_from_callback(shape, sharding, lambda index: values[index])


def build_wan(candidate: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The compiled forward of a small Wan, and its arguments. Devices stay in order: the plugs are
    the placement."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from aoizora.models import wan
    from aoizora.models.attention import Kernel
    from aoizora.models.rules import Sharder, parse_rules
    from aoizora.models.wan_params import is_param, param_specs

    cfg = tiny_config()
    shape = candidate["mesh"]
    mesh = Mesh(np.array(jax.devices()).reshape(shape), ("data", "context", "tensor"))
    rules = parse_rules(candidate["rules"])
    sharder = Sharder(mesh, rules)
    (length,) = sharder.axes(("activation_length",))
    grid = wan.make_grid(cfg, LATENT, sharder.size(length))
    run = wan.Run(cfg, grid, sharder, Kernel(flash=False), candidate["attention"])
    params = jax.tree.map(
        lambda p: put(p.shape, sharder.sharding("parameter", p.shape, p.axes), 3),
        param_specs(cfg),
        is_leaf=is_param,
    )
    whole = NamedSharding(mesh, PartitionSpec())
    inputs = (
        put((2, cfg.in_channels, *LATENT), whole, 5),
        put((2,), whole, 6),
        put((2, cfg.text_tokens, cfg.text_dim), whole, 7),
    )
    arguments = (params, *inputs)
    compiled = jax.jit(functools.partial(wan.forward, run)).lower(*arguments).compile()
    return compiled, arguments


def build_mix(candidate: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Collectives over the axes of a mesh, one after the other, each fed by the one before."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    names = tuple(f"m{i}" for i in range(len(candidate["mesh"])))
    mesh = Mesh(np.array(jax.devices()).reshape(candidate["mesh"]), names)
    spec = PartitionSpec(names)

    def body(x: Any) -> Any:
        for kind, axis, floats in candidate["collectives"]:
            name = names[axis]
            n = mesh.shape[name]
            part = jnp.broadcast_to(x[:1], (floats,)) + jnp.arange(floats, dtype=jnp.float32)
            if kind == "all-gather":
                got = jax.lax.all_gather(part, name)[:, 0]
            elif kind == "all-reduce":
                got = jax.lax.psum(part, name)
            elif kind == "all-to-all":
                got = jax.lax.all_to_all(part.reshape(n, -1), name, 0, 0)[:, 0]
            else:
                got = jax.lax.ppermute(part, name, [(i, (i + 1) % n) for i in range(n)])
            x = x + 1e-6 * got.sum()
        return x

    function = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec))
    argument = put((8,), NamedSharding(mesh, spec), 1)
    return function.lower(argument).compile(), (argument,)


def main() -> None:
    folder = Path(sys.argv[1])
    initialize()
    import jax

    commands = (folder / f"command{HOST}").open()
    answers = (folder / f"answer{HOST}").open("w")
    compiled: Any = None
    arguments: tuple[Any, ...] = ()
    for line in commands:
        command = json.loads(line)
        answer: dict[str, Any] = {}
        if "stop" in command:
            break
        if "build" in command:
            candidate = command["build"]
            make = build_mix if "collectives" in candidate else build_wan
            compiled, arguments = make(candidate)
            if HOST == 0:
                (folder / "program.hlo").write_text(compiled.as_text())
        if "steps" in command:
            began = time.monotonic()
            for _ in range(command["steps"]):
                jax.block_until_ready(compiled(*arguments))
            answer = {"begin": began, "end": time.monotonic()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
