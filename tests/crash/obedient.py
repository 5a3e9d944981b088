"""
Programs to be ended with SIGTERM, by name; each prints where it is, a line at a time.

    python obedient.py waits runs.db
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from typing import Any

from weft import Runner, Workflow, step
from weft.stores import SQLiteStore


def say(text: str) -> None:
    """Print a line, and see to it that it is read."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def slow(x: int) -> int:
    """Take until a line comes."""
    say("at work")
    sys.stdin.readline()
    return x + 1


def after(x: int) -> int:
    """Come next."""
    say("after")
    return x


flow = Workflow("flow", step(slow) >> step(after))


def telling(runner: Runner) -> Runner:
    """Return *runner*, which says when it has begun to close."""
    inner: Any = runner._inner
    close = inner.close

    async def told(**options: Any) -> None:
        say("in close")
        await close(**options)

    inner.close = told
    return runner


def waits(path: str) -> None:
    """Wait for a run, in the main thread."""
    with telling(Runner(SQLiteStore(path))) as runner:
        try:
            runner.start(flow, 1, id="job").wait()
        except SystemExit as error:
            say(f"told {error.code}")
            raise
    say("escaped")


def struck(x: int) -> int:
    """Get a SIGTERM in the thread of the step, which does not wake the main thread."""
    say("at work")
    sys.stdin.readline()
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    sys.stdin.readline()
    return x + 1


def beside(path: str) -> None:
    """Wait for a run whose step gets the signal."""
    with telling(Runner(SQLiteStore(path))) as runner:
        try:
            runner.start(Workflow("struck", step(struck)), 1, id="job").wait()
        except SystemExit as error:
            say(f"told {error.code}")
            raise
    say("escaped")


def two(path: str) -> None:
    """Have two runners, of which the outer one is at work."""
    with telling(Runner(SQLiteStore(path))) as outer, Runner() as inner:
        inner.start(Workflow("quick", step(abs)), -1).wait()
        try:
            outer.start(flow, 1, id="job").wait()
        except SystemExit as error:
            say(f"told {error.code}")
            raise
    say("escaped")


def closes(path: str) -> None:
    """Close while a step is at work, and say when the close has begun."""
    begun = threading.Event()

    def work(x: int) -> int:
        say("at work")
        begun.set()
        sys.stdin.readline()
        return x + 1

    with telling(Runner(SQLiteStore(path))) as runner:
        runner.start(Workflow("flow", step(work, name="slow")), 1, id="job")
        begun.wait()
    say("escaped")


def handles(path: str) -> None:
    """Have its own handler."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    with Runner(SQLiteStore(path)) as runner:
        handle = runner.start(flow, 1, id="job")
        while not told.wait(0.01):
            pass
        say("told")
        handle.wait()
    say("done")


def handles_later(path: str) -> None:
    """Install a handler while the runner is open, which stays."""
    with Runner(SQLiteStore(path)):
        signal.signal(signal.SIGTERM, _mine)
    say(str(signal.getsignal(signal.SIGTERM) is _mine))


def _mine(*_: object) -> None:
    say("mine")


def elsewhere(path: str) -> None:
    """Open the runner on a thread, which changes nothing."""

    def work() -> None:
        with Runner(SQLiteStore(path)) as runner:
            runner.start(flow, 1, id="job").wait()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    say("done")


def closed_elsewhere(path: str) -> None:
    """Close on a thread what was opened here: there is no runner any more when the signal comes."""
    runner = Runner(SQLiteStore(path)).open()
    thread = threading.Thread(target=runner.close)
    thread.start()
    thread.join()
    say("closed")
    sys.stdin.readline()
    say("escaped")


def forks(path: str) -> None:
    """Fork a process while a runner is open; it ends by SIGTERM like any other."""
    with Runner(SQLiteStore(path)):
        child = multiprocessing.get_context("fork").Process(target=_lingers)
        child.start()
        child.join()
        say(f"exited with {child.exitcode}")


def _lingers() -> None:
    say(f"child {os.getpid()}")
    threading.Event().wait(60)


def forks_a_runner(path: str) -> None:
    """Fork a process that has its own runner, which SIGTERM ends in order."""
    with Runner():
        child = multiprocessing.get_context("fork").Process(target=_waits_as_child, args=(path,))
        child.start()
        child.join()
        say(f"exited with {child.exitcode}")


def _waits_as_child(path: str) -> None:
    sys.stdin = open(0)  # noqa: SIM115 - multiprocessing has taken it away
    say(f"child {os.getpid()}")
    waits(path)


def states(_: str) -> None:
    """See that what was there is put back, in whatever order runners are closed."""
    default = signal.getsignal(signal.SIGTERM)
    first, second = Runner().open(), Runner().open()
    ours = signal.getsignal(signal.SIGTERM)
    first.close()
    still = signal.getsignal(signal.SIGTERM)
    second.close()
    again = signal.getsignal(signal.SIGTERM)
    second.close()
    with Runner():
        reopened = signal.getsignal(signal.SIGTERM)
    say(str((default, ours is still is reopened, ours is not default, again is default)))
    say(str(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL))


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
