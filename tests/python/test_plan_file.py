"""The published schema and the reader agree on what a plan is."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import jsonschema
import pytest
from test_kill import Planner

from aoizora import _core

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "plan.schema.json"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A real plan, from captured answers of the compiler."""
    return Planner(tmp_path_factory.mktemp("plan")).plan()


def test_a_plan_fits_the_schema_and_reads_back(
    plan: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(plan)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    again = json.loads(_core.check_plan(str(path)))
    again.pop("run")
    assert again == plan


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("format", "other"),
        ("version", 2),
        ("device_coords", []),
        ("predicted", {"step_us": -1}),
        ("candidates", [{"id": "x"}]),
        ("mesh", {"axes": ["a"], "shape": [0]}),
    ],
)
def test_both_refuse_the_same(
    plan: dict[str, Any], tmp_path: pathlib.Path, member: str, value: Any
) -> None:
    bad = {**plan, member: value}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(bad)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(bad))
    with pytest.raises(_core.UserError):
        _core.check_plan(str(path))
