"""
A program to be killed: hands out the token of an external step, and waits for its run.

    python outsider.py runs.db before|after

It prints each token.  ``before`` holds the function, so that it is killed before it has returned.
"""

from __future__ import annotations

import sys
from typing import Any

from weft import Policy, Runner, Workflow, current, step
from weft.runner.checkpoints import as_checkpoints
from weft.stores import SQLiteStore

hold = False


def ask(order: int) -> None:
    """Hand the token out."""
    say("token", current().token)
    if hold:
        sys.stdin.read()


def ship(answer: Any) -> str:
    """Return text."""
    return f"shipped: {answer}"


orders = Workflow(
    "orders",
    step(abs, name="first") >> step(ask, name="ask") >> step(ship, name="ship"),
    policies=[("ask", Policy(execution_mode="external", timeout=3600.0))],
)


def say(what: str, value: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{what} {value}\n")
    sys.stdout.flush()


def main(path: str, moment: str, strategy: str) -> None:
    """Run to the end, and print what came of it."""
    global hold  # noqa: PLW0603 - the step is a function of a module
    hold = moment == "before"
    with Runner(SQLiteStore(path), checkpoint=as_checkpoints(strategy)) as runner:
        handle = runner.start(orders, 1, id="job", if_exists="return")
        if moment == "after":
            runner.wait_until("job", lambda run: run.status == "waiting")
            say("open", "")
        say("result", handle.result())


if __name__ == "__main__":
    main(*sys.argv[1:])
