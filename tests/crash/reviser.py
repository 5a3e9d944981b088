"""
A program that revises a run, and is killed at one of its appends.

    python reviser.py runs.db upgrade 3 before

The first argument after the file says what it does; "begin-" before it makes the run that is revised.  It says what it
executes, a line each, and in the end what came of it.  It can be started again after every death.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from weft import Runner, Workflow, accumulator, step, wait_for
from weft.errors import RunClosed, RunExists, StoreError
from weft.ports.store import FINISHED, Append
from weft.stores import SQLiteStore

WAIT = 30.0


def say(*words: Any) -> None:
    """Print a line, and see to it that it is read."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def first(x: int) -> int:
    """Be a step that stands."""
    say("first", x)
    return x + 1


def picky(x: int) -> int:
    """Fail while the run that is revised begins."""
    say("picky", x)
    if IS_BROKEN:
        raise ValueError(f"no {x}")
    return x * 2


def both(x: int, approval: str) -> str:
    """Be a step that waits for both."""
    say("both", x)
    return f"{x} {approval}"


def bill(text: str) -> str:
    """Be a step that only the new version has."""
    say("bill", text)
    return f"billed {text}"


def add_up(so_far: int, x: int) -> int:
    """Be a state that is carried."""
    say("total", x)
    return so_far + x


def pass_on(x: int) -> int:
    """Be a step after a wait that is carried."""
    say("pass_on", x)
    return x


_first, _picky, _both = step(first), step(picky), step(both)
COUNTS = Workflow("counts", accumulator(add_up, init=0, name="total"), wait_for("go") >> step(pass_on))
OLD = Workflow("orders", _first >> [_picky, wait_for("go", name="approval")] >> _both)
NEW = Workflow("orders", _first >> [_picky, wait_for("go", timeout=600, name="approval")] >> _both >> step(bill))
IS_BROKEN = False


class Deadly(SQLiteStore):
    """A store whose process is killed before or after an append that is counted."""

    def __init__(self, path: str, number: int, moment: str) -> None:
        super().__init__(path)
        self.number, self.moment, self.appends = number, moment, 0

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Append, and die."""
        self.appends += 1
        if self.appends == self.number and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answers = await super().append(batch)
        if self.appends == self.number:
            os.kill(os.getpid(), signal.SIGKILL)
        return answers


def begin(runner: Runner, what: str) -> None:
    """Make the run that is revised: one that has failed, has completed, or waits."""
    global IS_BROKEN  # noqa: PLW0603 - what a repair is
    IS_BROKEN = what == "retry"
    if what == "continue":
        runner.start(COUNTS, id="a")
        for number in (1, 2):
            runner.send("a", number, key=str(number))
        runner.wait_until("a", lambda run: run.state_of("total") == 3 and run.status == "waiting", WAIT)
        return
    runner.start(OLD, 1, id="a")
    if what != "upgrade":
        runner.signal("a", "go", "yes")
        runner.wait("a", WAIT)
    else:
        runner.wait_until("a", lambda run: run.waiting_for == ["approval"] and bool(run.values("picky")), WAIT)


def retry(runner: Runner) -> str:
    """Run again what failed."""
    if runner.find("a").status == "failed":
        runner.retry("a")
    elif runner.find("a").status not in FINISHED:
        runner.resume("a")
    return "a"


def fork(runner: Runner) -> str:
    """Go on with another value of the first step, which is approved again."""
    try:
        runner.fork("a", "b", at="first", value=7)
    except RunExists:
        runner.resume("b")
    with suppress(RunClosed):
        runner.signal("b", "go", "again", key="1")
    return "b"


def upgrade(runner: Runner) -> str:
    """Follow the new version, and approve."""
    if runner.find("a").version == NEW.version:
        runner.resume("a")
    else:
        runner.upgrade("a", NEW)
    with suppress(RunClosed):
        runner.signal("a", "go", "yes", key="1")
    return "a"


def go_on(runner: Runner) -> str:
    """Continue the run as a new one, from its state and with its three waits, and let all of them end."""
    is_continued = runner.find("a").status in FINISHED
    runner.resume("a~2" if is_continued else "a")
    with suppress(RunClosed):
        runner.send("a", 10, key="3")
    if not is_continued:
        runner.wait_until("a", lambda run: run.state_of("total") == 13 and run.status == "waiting", WAIT)
        runner.continue_as_new("a")
    for number in (1, 2, 3):
        with suppress(RunClosed):
            runner.signal("a", "go", number, key=str(number))
    runner.finish("a~2")
    run = runner.wait("a~2", WAIT)
    assert len(runner.runs(workflow="counts")) == 2
    say("came to", run.state_of("total"), sorted(run.values("pass_on")), run.status)
    return "a~2"


def main(path: str, what: str, number: str = "0", moment: str = "") -> None:
    """Begin or revise a run."""
    store = Deadly(path, int(number), moment)
    with Runner(store, executor="inline") as runner:
        runner.register(OLD)
        runner.register(NEW)
        runner.register(COUNTS)
        if what.startswith("begin-"):
            begin(runner, what.removeprefix("begin-"))
            return
        run = {"retry": retry, "fork": fork, "upgrade": upgrade, "continue": go_on}[what](runner)
        result = str(runner.result(run, WAIT))
        kinds = Counter(type(event).__name__ for event in runner.log(run))
        say("done", result, kinds, store.appends, runner.find("a").chain.hex())


if __name__ == "__main__":
    main(*sys.argv[1:])
