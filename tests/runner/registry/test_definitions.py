"""The live definitions of a runner."""

from __future__ import annotations

import gc
import logging

import pytest

from weft import Workflow, step
from weft.errors import AnotherGraph
from weft.ports.store import RunRecord
from weft.runner.registry.definitions import Definitions


def a_workflow(name: str = "noted", *steps: str) -> Workflow:
    return Workflow(name, *(step(lambda x: x, name=each) for each in steps or ("local",)))


def stored(workflow: Workflow) -> RunRecord:
    return RunRecord(id="r", workflow=workflow.name, version=workflow.version, created_at=0.0, updated_at=0.0)


def test_a_registered_definition_stays() -> None:
    definitions = Definitions()
    record = stored(a_workflow())

    definitions.register(a_workflow())
    gc.collect()

    found = definitions.finder(None)(record)
    assert found is not None
    assert found.name == "noted"


def test_a_followed_definition_stays_as_long_as_something_holds_it() -> None:
    definitions, workflow = Definitions(), a_workflow()
    record = stored(workflow)

    assert definitions.follow(workflow)
    assert not definitions.follow(workflow)
    assert definitions.finder(None)(record) is workflow

    del workflow
    gc.collect()
    assert definitions.finder(None)(record) is None
    assert definitions.all() == []


def test_a_given_definition_comes_first() -> None:
    definitions, known, given = Definitions(), a_workflow(), a_workflow()
    definitions.register(known)

    assert definitions.finder(given)(stored(known)) is given
    assert definitions.finder(a_workflow("another"))(stored(known)) is known


def test_a_given_definition_with_another_graph_is_refused_logged_or_taken(caplog: pytest.LogCaptureFixture) -> None:
    definitions, record, other = Definitions(), stored(a_workflow()), a_workflow("noted", "local", "more")

    with pytest.raises(AnotherGraph):
        definitions.finder(other)(record)
    assert definitions.finder(other, "any")(record) is other
    assert not caplog.records

    with caplog.at_level(logging.WARNING, "weft.runner"):
        assert definitions.finder(other, "its own")(record) is other
    assert "keeps its graph" in caplog.text
