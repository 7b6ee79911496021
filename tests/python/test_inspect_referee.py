"""Our readers against jaxlib's own parsers, on programs that the compilers at hand write today.

jaxlib reads HLO text through `jaxlib._hlo.hlo_module_from_text` and MLIR through `jaxlib.mlir`.
Names, opcodes, shapes, bytes, operands, groups and pairs are compared one by one. jaxlib accepts
some texts that are wrong (overlapping groups, ids out of range) and aborts on others; those are
decided in src/aoizora/ir/hlo_edge_test.cc, with the reason.
"""

from __future__ import annotations

import collections
import json
import lzma
import pathlib
import random
import re
import subprocess
import sys
from typing import Any

import pytest
from jaxlib import _hlo
from referee_proto import COLLECTIVES, Op, read_op

from aoizora import _core

HERE = pathlib.Path(__file__).parent
CASES = HERE.parent / "cases"


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder of freshly compiled programs (TPU, CPU) and those kept in tests/cases."""
    folder = tmp_path_factory.mktemp("modules")
    subprocess.run(
        [sys.executable, HERE / "referee_modules.py", folder],
        check=True,
        capture_output=True,
        timeout=600,
    )
    for path in sorted((CASES / "hlo").glob("*.hlo.xz")):
        (folder / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    return folder


def texts(folder: pathlib.Path, ending: str) -> list[pathlib.Path]:
    """The folder's files, at least as many as the generator writes."""
    found = sorted(folder.glob(f"*.{ending}"))
    assert len(found) > 25
    return found


def reference(text: str) -> dict[str, list[Op]]:
    """Computations as jaxlib sees them, without those it makes up for async sugar."""
    module = _hlo.hlo_module_from_text(text)
    written = set(re.findall(r"^(?:ENTRY )?%?([\w.\-]+) ?(?:\(.*|)\{$", text, re.MULTILINE))
    return {
        computation.name: [read_op(instruction) for instruction in computation.instructions()]
        for computation in module.computations()
        if computation.name in written
    }


def ours(data: bytes, name: str) -> dict[str, Any]:
    """What we read, by computation."""
    program = json.loads(_core.program_json(data, name))
    return {computation["name"]: computation for computation in program["computations"]}


def same_opcode(our: str, theirs: str) -> bool:
    """jaxlib turns `slice-start` into async-start of a computation it makes up."""
    ending = re.search(r"-(start|update|done)$", our)
    return our == theirs or (ending is not None and theirs == "async" + ending.group(0))


def strip(shape: str) -> str:
    """Without blanks and index comments."""
    return re.sub(r"\s|/\*.*?\*/", "", shape)


def bare(shape: str) -> str:
    """Without layouts."""
    return re.sub(r"\{[^}]*\}", "", strip(shape))


def compare(text: str, name: str) -> int:
    """Compares every instruction; returns how many there were."""
    theirs = reference(text)
    mine = ours(text.encode(), name)
    assert set(mine) == set(theirs), name
    count = 0
    for computation, ops in theirs.items():
        read = {op["name"]: op for op in mine[computation]["instructions"]}
        assert set(read) == {op.name for op in ops}, (name, computation)
        kinds = collections.Counter(op.opcode for op in ops if not op.opcode.startswith("async"))
        assert kinds == collections.Counter(
            op["opcode"] for op in read.values() if op["opcode"] in kinds
        ), (name, computation)
        for op in ops:
            where = (name, computation, op.name)
            our = read[op.name]
            assert same_opcode(our["opcode"], op.opcode), where
            if op.opcode in ("send", "recv"):  # jaxlib makes their context's layout up again
                assert bare(our["shape"]) == bare(op.shape), where
            else:
                assert strip(our["shape"]) == strip(op.shape), where
            assert our["bytes"] == op.bytes, where
            assert our["operands"] == op.operands, where
            if op.opcode == our["opcode"]:
                assert len(our["calls"]) == op.called, where
            count += 1
    return count


def test_instructions_and_shapes(modules: pathlib.Path) -> None:
    total = 0
    for path in texts(modules, "hlo"):
        if path.stem != "dynamic":  # written by hand without layouts
            total += compare(path.read_text(), path.name)
    assert total > 3500


def test_collectives_and_groups(modules: pathlib.Path) -> None:
    """Every collective that jaxlib finds, with its groups as numpy expands them."""
    checked = 0
    for path in texts(modules, "hlo"):
        text = path.read_text()
        found = json.loads(_core.inspect(text.encode(), path.name, True))["collectives"]
        by_name = {collective["name"]: collective for collective in found}
        assert len(by_name) == len(found), path.name
        expected = 0
        for ops in reference(text).values():
            starts = {
                operand
                for op in ops
                if op.opcode == "custom-call" and f"%{op.name} " in text
                for operand in op.operands
                if re.search(rf"%{re.escape(op.name)} = .*\"AsyncCollectiveStart\"", text)
            }
            for op in ops:
                kind = op.opcode.removesuffix("-start")
                if kind not in COLLECTIVES:
                    continue
                line = re.search(rf"%{re.escape(op.name)} = .*", text)
                assert line is not None
                # A collective split over fusions counts where its start is.
                if '"async_collective_fusion_config"' in line.group(0) and op.name not in starts:
                    assert op.name not in by_name
                    continue
                expected += 1
                our = by_name[op.name]
                assert our["kind"] == kind
                if op.groups:
                    assert our["groups"] == op.groups, (path.name, op.name)
                if op.pairs:
                    assert our["source_target_pairs"] == op.pairs, (path.name, op.name)
                checked += 1
        assert len(found) == expected, path.name
    assert checked > 100


def test_executions_known_from_the_source(modules: pathlib.Path) -> None:
    """Loops of known length: the generator says how often each kind must run."""
    checked = 0
    for path in texts(modules, "json"):
        known = json.loads(path.read_text())["executions"]
        report = json.loads(_core.inspect(path.with_suffix(".hlo").read_bytes(), path.stem, True))
        for kind, executions in known.items():
            if path.stem == "scan-v5e_2x2_x2":
                continue  # between slices the permute is sent through hosts
            assert report["totals"][kind]["executions"] == executions, (path.name, kind)
            checked += 1
    assert checked >= 15


def test_jaxlib_reads_what_we_print(modules: pathlib.Path) -> None:
    for path in texts(modules, "hlo"):
        text = path.read_bytes()
        printed = _core.print_hlo(text, path.name)
        again = _hlo.hlo_module_from_text(printed.decode()).to_string()
        assert again == _hlo.hlo_module_from_text(text.decode()).to_string(), path.name


def test_random_groups_against_jaxlib() -> None:
    """Iota and mesh forms with random factors, transposes, device ids and sub-axes."""
    rng = random.Random(4)
    forms = [iota_form(rng) for _ in range(150)] + [mesh_form(rng) for _ in range(250)]
    lines = "\n".join(
        f"  a{i} = f32[4] all-reduce(p), channel_id={i + 1}, replica_groups={form}, "
        "use_global_device_ids=true, to_apply=add"
        for i, form in enumerate(forms)
    )
    text = (
        "HloModule m, num_partitions=4096\n"
        "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n"
        f"ENTRY e {{\n  p = f32[4] parameter(0)\n{lines}\n  ROOT r = f32[4] negate(p)\n}}\n"
    )
    theirs = {op.name: op for ops in reference_all(text) for op in ops}
    report = json.loads(_core.inspect(text.encode(), "random", True))
    assert len(report["collectives"]) == len(forms)
    for collective in report["collectives"]:
        index = int(collective["name"][1:])
        assert collective["groups"] == theirs[collective["name"]].groups, forms[index]


def reference_all(text: str) -> list[list[Op]]:
    module = _hlo.hlo_module_from_text(text)
    return [[read_op(op) for op in c.instructions()] for c in module.computations()]


def shuffled(rng: random.Random, count: int) -> list[int]:
    order = list(range(count))
    rng.shuffle(order)
    return order


def iota_form(rng: random.Random) -> str:
    dims = [rng.choice([1, 2, 3, 4, 5]) for _ in range(rng.randint(1, 4))]
    count = 1
    for dim in dims:
        count *= dim
    size = rng.choice([d for d in range(1, count + 1) if count % d == 0])
    order = ",".join(map(str, shuffled(rng, len(dims))))
    # jaxlib wants T(..) for more than one dimension and none for one.
    transpose = f"T({order})" if len(dims) > 1 else ""
    return f"[{count // size},{size}]<=[{','.join(map(str, dims))}]{transpose}"


def mesh_form(rng: random.Random) -> str:
    sizes = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(rng.randint(1, 3))]
    names = [f"ax{i}" for i in range(len(sizes))]
    count = 1
    for size in sizes:
        count *= size
    ids = ""
    choice = rng.random()
    if choice < 0.3:
        listed = shuffled(rng, count)
        if listed != sorted(listed):  # jaxlib aborts the process on a list that is an iota
            ids = f", device_ids=({','.join(map(str, listed))})"
    elif choice < 0.6:
        order = shuffled(rng, len(sizes))
        if order != sorted(order):  # jaxlib takes an iota without transpose for none at all
            ids = f", device_ids=([{','.join(map(str, sizes))}]T({','.join(map(str, order))}))"
    references = []
    for index in shuffled(rng, len(sizes))[: rng.randint(0, len(sizes))]:
        size = sizes[index]
        cuts = [(p, s) for p in range(1, size + 1) for s in range(2, size) if size % (p * s) == 0]
        if cuts and rng.random() < 0.5:
            pre, part = rng.choice(cuts)
            references.append(f"'{names[index]}':({pre}){part}")
        else:
            references.append(f"'{names[index]}'")
    axes = ",".join(f"'{name}'={size}" for name, size in zip(names, sizes, strict=True))
    return f"mesh[{axes}]{ids} {{{','.join(references)}}}"


# ---- MLIR ----


def walk(operation: Any, found: collections.Counter[str]) -> None:
    """Counts operations by name as jaxlib.mlir sees them."""
    for region in operation.regions:
        for block in region:
            for op in block:
                found[op.operation.name] += 1
                walk(op.operation, found)


def test_stablehlo_operations_and_executions(modules: pathlib.Path) -> None:
    """Lowered, not yet compiled: operations by name, and loops of known length."""
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir

    from aoizora import jaxapi

    for path in texts(modules, "mlir"):
        data = path.read_bytes()
        assert _core.text_form(data) == "pretty_mlir"
        generic = jaxapi.generic_from_mlir(data).encode()
        assert _core.text_form(generic) == "generic_mlir"
        with jax_mlir.make_ir_context():
            expected: collections.Counter[str] = collections.Counter()
            walk(ir.Module.parse(data).operation, expected)
        read = ours(generic, path.name)
        counted = collections.Counter(
            op["opcode"]
            for c in read.values()
            for op in c["instructions"]
            if op["opcode"] != "parameter"
        )
        for outside in ("func.func", "sdy.mesh"):
            expected.pop(outside, None)
        assert counted == expected, path.name
        known = path.with_suffix(".json")
        if known.exists():
            report = json.loads(_core.inspect(generic, path.name, True))
            for kind, executions in json.loads(known.read_text())["executions"].items():
                assert report["totals"][kind]["executions"] == executions, path.name


@pytest.mark.parametrize("name", ["I22_full_remat.mlir", "I23_nondivisible.mlir"])
def test_pretty_mlir_is_read_through_jaxlib(name: str) -> None:
    from aoizora import jaxapi

    generic = jaxapi.generic_from_mlir((CASES / "hlo_edge" / name).read_bytes()).encode()
    report = json.loads(_core.inspect(generic, name, True))
    # Before Shardy has run there is no collective in either: the text asks for none yet.
    assert report["format"] == "stablehlo"
    assert report["num_partitions"] == 8
    assert report["collectives"] == []


# ---- The command ----


def run_inspect(*arguments: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    program = "import sys; from aoizora.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, "inspect", *arguments],
        input=data,
        capture_output=True,
        check=False,
    )


def test_command_reads_standard_input_and_archives() -> None:
    packed = (CASES / "hlo" / "v5e_2x4_2x4.hlo.xz").read_bytes()
    shown = run_inspect("-", "--json", data=packed)
    assert shown.returncode == 0, shown.stderr
    report = json.loads(shown.stdout)
    assert report["module"] == "jit_f"
    plain = run_inspect("-", "--json", data=lzma.decompress(packed))
    assert json.loads(plain.stdout) == report
    table = run_inspect(str(CASES / "hlo" / "v5e_2x4_2x4.hlo.xz"))
    rows = table.stdout.decode().splitlines()
    assert [row.split()[0] for row in rows[2:]] == [
        "kind",
        "all-gather",
        "all-reduce",
        "all-reduce",
    ]


def test_command_says_where_an_error_is() -> None:
    shown = run_inspect(str(CASES / "hlo_edge" / "I03l_replica_groups.hlo"))
    assert shown.returncode == 2
    assert b"I03l_replica_groups.hlo:8:69: error: [2,4] names 8 ids" in shown.stderr
    assert run_inspect("/no/such/file").returncode == 2
    binary = run_inspect("-", data=b"\x0a\x00\x01HloModule")
    assert binary.returncode == 2
    assert b"is binary" in binary.stderr


def test_command_reads_a_truncated_dump() -> None:
    text = lzma.decompress((CASES / "hlo" / "v5e_2x4_2x4.hlo.xz").read_bytes())
    shown = run_inspect("-", "--json", data=text[: len(text) // 2])
    assert shown.returncode == 0
    report = json.loads(shown.stdout)
    assert report["truncated"] is True
    assert report["truncated_at"]["line"] == text[: len(text) // 2].count(b"\n") + 1


def test_command_does_not_import_jax() -> None:
    program = (
        "import sys; from aoizora.cli import main; main(); "
        "sys.exit(any(m.startswith('jax') for m in sys.modules))"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            "inspect",
            str(CASES / "hlo_edge" / "I07_permute_islands.hlo"),
        ],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
