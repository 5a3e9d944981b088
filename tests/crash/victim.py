"""
A program to be killed: runs a workflow on a SQLite file, and prints a line for every step before it returns.

    python victim.py runs.db chain every_cycle
    python victim.py runs.db chain pipelined+batches  # with a scheduler that hands chains over together

Whether the run is there already is found out by starting it: the same call starts and resumes.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from weft import Policy, Runner, Workflow, accumulator, each, reduce, step
from weft.errors import RunParked
from weft.policy import DEFAULT
from weft.runner import every_n
from weft.runner.checkpoints import Checkpoints, as_checkpoints
from weft.schedulers import ChainBatching
from weft.stores import SQLiteStore

_alone = threading.Lock()


def say(component: str, made: Any) -> Any:
    """Print what *component* is about to return, and return it."""
    with _alone:  # two threads that share a text file lose lines
        sys.stdout.write(json.dumps([component, made]) + "\n")
        sys.stdout.flush()
    return made


def numbered(number: int) -> Any:
    """Return a step with this name that adds one."""
    return step(lambda x: say(f"s{number}", x + 1), name=f"s{number}")


def _chain() -> Workflow:
    first, *others = [numbered(number) for number in range(1, 9)]
    flow: Any = first
    for other in others:
        flow = flow >> other
    return Workflow("chain", flow)


chain = _chain()
wide = Workflow(
    "wide",
    each(step(lambda x: say("square", x * x), name="square"))
    >> reduce(lambda so_far, x: so_far + x, init=0, name="total"),
    step(lambda xs: say("count", len(xs)), name="count")
    >> accumulator(lambda so_far, x: say("sums", so_far + x), init=0, name="sums"),
)
WORKFLOWS: dict[str, tuple[Workflow, Any]] = {
    "chain": (chain, 0),
    "durable": (chain.renamed("durable").with_policies([(DEFAULT, Policy(execution_mode="durable"))]), 0),
    "wide": (wide, list(range(1, 11))),
}
STRATEGIES: dict[str, Checkpoints] = {"every_n": every_n(3)}


def main(path: str, name: str, strategy: str) -> None:
    """Run to the end, and print what came of it."""
    workflow, value = WORKFLOWS[name]
    strategy, _, batches = strategy.partition("+")
    scheduler = ChainBatching() if batches else None
    checkpoint = STRATEGIES.get(strategy) or as_checkpoints(strategy)
    with Runner(SQLiteStore(path), checkpoint=checkpoint, threads=2, scheduler=scheduler) as runner:
        try:
            run = runner.start(workflow, value, id="job").wait()
        except RunParked:  # it was killed three times before anything of it was stored
            run = runner.resume("job", workflow=workflow).wait()
        say("result", run.results())
    sys.stdin.read()  # a process that is to be killed does not escape


if __name__ == "__main__":
    main(*sys.argv[1:])
