"""
The contract of fragments, the operands of ``>>``, as tests to inherit.
"""

from __future__ import annotations

from typing import Any

import pytest

from weft.core.compose.flow import Flow, Fragment
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.log import decode, encode


class FragmentContract:
    """
    A fragment is open for what feeds it, is the same at every use, and its runs are stored and restored.

    Override *fragment* and *value*.
    """

    @pytest.fixture
    def fragment(self) -> Fragment:
        """Return the fragment under test."""
        raise NotImplementedError("override the fixture `fragment`")

    @pytest.fixture
    def value(self) -> Any:
        """Return an input that it can take."""
        raise NotImplementedError("override the fixture `value`")

    def test_it_is_a_flow_that_takes_something(self, fragment: Fragment) -> None:
        """It can be the right side of ``>>``."""
        flow = fragment.flow()

        assert isinstance(flow, Flow)
        assert flow.entries

    def test_every_use_is_the_same(self, fragment: Fragment) -> None:
        """Used twice it is there once: its components are the same ones, by name and by code."""
        once, twice = Workflow("w", fragment), Workflow("w", fragment, fragment)

        assert dict.fromkeys(once.components) == dict.fromkeys(twice.components)
        assert once.hash == twice.hash

    def test_it_can_be_nested_under_other_names(self, fragment: Fragment) -> None:
        """Two workflows of it can be parts of a third."""
        inner = Workflow("inner", fragment)

        outer = Workflow("outer", inner, inner.renamed("other"))

        assert {name.partition(".")[0] for name in outer.components} == {"inner", "other"}

    def test_its_definition_is_data(self, fragment: Fragment) -> None:
        """It is written as JSON and read again."""
        workflow = Workflow("w", fragment)

        assert Workflow.from_dict(workflow.to_dict(), workflow=workflow).hash == workflow.hash

    def test_a_run_of_it_is_the_fold_of_its_log(self, fragment: Fragment, value: Any) -> None:
        """A run is rebuilt from its log, also from bytes, and nothing is called again."""
        workflow = Workflow("w", fragment)
        run = workflow.run(value)

        assert not run.failed
        assert Run.from_log(run.log()) == run
        assert Run.from_log(decode(encode(run.log()), workflow=workflow)).results() == run.results()

    def test_it_can_run_one_step_at_a_time(self, fragment: Fragment, value: Any) -> None:
        """Its result does not depend on which of its runnables is executed first."""
        workflow = Workflow("w", fragment)
        run = workflow.plan(value)

        while run.is_runnable or run.fire_timers().is_runnable:
            run.apply(run.prepare()[-1].execute())

        assert run.results() == workflow.run(value).results()
