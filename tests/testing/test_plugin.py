"""The pytest plugin: its fixtures, its marker, and what it costs when it is not used."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

FLOW = """
import pytest
from weft import Workflow, current, sleep, step, wait_for

remind = Workflow("remind", step(lambda x: x, name="ask") >> sleep(days=30) >> step(str, name="nag"))
"""


@pytest.fixture(autouse=True)
def _apart(pytester: pytest.Pytester) -> None:
    """Let the tests inside fail on every warning."""
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider\nfilterwarnings = error\n")


def test_fixtures_are_there_without_an_import(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        FLOW
        + """
def test_a_reminder(weft_runner):
    handle = weft_runner.start(remind, 5)
    weft_runner.advance(days=30)
    assert handle.result() == "5"

def test_a_clock(weft_clock):
    weft_clock.sleep(60)
    assert weft_clock.time() == 60

def test_a_store(weft_store):
    from weft import Runner
    with Runner(weft_store) as runner:
        assert runner.start(Workflow("w", step(lambda x: x + 1, name="more")), 1).result() == 2
"""
    )

    pytester.runpytest_inprocess().assert_outcomes(passed=3)


def test_a_marked_test_has_faults_and_comes_to_the_same(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        FLOW
        + """
ask, done = step(lambda x: x, name="ask"), step(str, name="done")
approve = Workflow("approve", ask >> wait_for("ok") >> sleep(hours=1) >> done)

@pytest.mark.parametrize("seed", range(12))
def test_drawn(request, seed):
    request.node.add_marker(pytest.mark.weft_faults(seed=seed, share=0.6))
    runner = request.getfixturevalue("weft_runner")
    handle, other = runner.start(remind, 5), runner.start(approve, 7, id="o")
    runner.signal("o", "ok", "yes")
    runner.advance(hours=2)
    assert other.result() == "yes"
    runner.advance(days=31)
    assert handle.result() == "5"
    assert runner.deaths > 0

@pytest.mark.weft_faults
def test_marked(weft_runner):
    assert weft_runner.start(remind, 5).status() == "waiting"
"""
    )

    pytester.runpytest_inprocess().assert_outcomes(passed=13)


def test_a_marked_test_that_fails_says_its_seed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        FLOW
        + """
@pytest.mark.weft_faults(seed=4, share=1.0)
def test_once(weft_runner):
    weft_runner.start(remind, 1)
    assert weft_runner.deaths == 0
"""
    )

    result = pytester.runpytest_inprocess()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*weft faults*", "repeat them with @pytest.mark.weft_faults(seed=4)"])


def test_a_marker_with_something_else_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        FLOW
        + """
@pytest.mark.weft_faults(7)
def test_it(weft_runner):
    pass

@pytest.mark.weft_faults(share=7)
def test_it_too(weft_runner):
    pass
"""
    )

    result = pytester.runpytest_inprocess()

    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*takes seed= and share=, not [[]7[]]*", "*use a number from 0 to 1*"])


def test_a_session_that_does_not_use_it_imports_none_of_the_tools() -> None:
    code = "import sys, weft.testing.plugin; print([name for name in sys.modules if name.startswith('weft.testing.')])"

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "['weft.testing.plugin']"
