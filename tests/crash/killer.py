"""
A program that dies of one of its steps, and says what it does, a line at a time.

    python killer.py runs.db exits

The first time it starts its runs, all others it resumes them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any

from weft import Runner, Workflow, step
from weft.stores import SQLiteStore


def say(*words: object) -> None:
    """Print a line, and see to it that it is read."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def exits(_: Any) -> Any:
    """End the process at once."""
    say("fatal")
    os._exit(3)


def segfaults(_: Any) -> Any:
    """Read what is not there."""
    say("fatal")
    ctypes.string_at(0)


def is_killed(_: Any) -> Any:
    """Be killed, as one that uses too much memory."""
    say("fatal")
    os.kill(os.getpid(), signal.SIGKILL)


def calls_back(run: str, _: Any) -> None:
    """End the process when a run is done."""
    say("called back for", run)
    os._exit(3)


def quick(x: int) -> int:
    """Be a step of a run that is well."""
    say("quick", x)
    return x


def last(x: int) -> int:
    """Come after it."""
    say("last", x)
    return x


def by_name(name: str) -> Workflow:
    """Return a workflow whose second step is the function with this name."""
    return Workflow(name, step(quick) >> step(globals()[name]) >> step(last))


well = Workflow("well", step(quick) >> step(last))


def rescue(path: str) -> None:
    """Resume the run that kills its process in other processes, and say what came of it."""
    with Runner(SQLiteStore(path), modules=[sys.modules[__name__]]) as runner:
        run = runner.resume("killer", executor="process").wait(timeout=60)
        say(run.status, *(type(failure.__cause__).__name__ for failure in run.failures.values()))


def main(path: str, name: str) -> None:
    """Start a run that kills this process, and some that wait for the same thread; or resume what there is."""
    if name == "rescue":
        rescue(path)
        return
    with Runner(SQLiteStore(path), threads=1, modules=[sys.modules[__name__]]) as runner:
        runner.register(well)
        if runner.count() == 0 and name == "calls_back":
            runner.start(well, 0, id="killer", on_complete="__main__:calls_back")
        elif runner.count() == 0:
            runner.start(by_name(name), 0, id="killer")
        resumed = [handle.id for handle in runner.resume_all()]
        for number in range(1, 4):
            runner.start(well, number, id=f"well-{number}")
        say("resumed", *resumed)
        for number in range(1, 4):
            runner.wait(f"well-{number}", timeout=60)
        runner.wait("killer", timeout=60)


if __name__ == "__main__":
    main(*sys.argv[1:])
