"""
A program to be killed: a step writes numbers to a stream, and says when others can read them.

    python streamer.py runs.db hold|go every_cycle
"""

from __future__ import annotations

import sys

from weft import Runner, Workflow, current, step
from weft.runner.checkpoints import as_checkpoints
from weft.stores import SQLiteStore

COUNT = 500
holds = False


def speak(x: int) -> int:
    """Write numbers, and wait in the middle to be killed."""
    stream = current().stream("numbers")
    for number in range(COUNT):
        stream.write(number)
        if holds and number == COUNT // 2:
            sys.stdin.read()
    return x


numbers = Workflow("numbers", step(speak, name="speak") >> step(abs, name="end"))


def main(path: str, moment: str, strategy: str) -> None:
    """Run to the end, and print what is read meanwhile."""
    global holds  # noqa: PLW0603 - the step is a function of a module
    holds = moment == "hold"
    with Runner(SQLiteStore(path), checkpoint=as_checkpoints(strategy)) as runner:
        handle = runner.start(numbers, 1, id="job", if_exists="return")
        for item in handle.stream("numbers"):
            sys.stdout.write(f"{item.offset} {item.value}\n")
            sys.stdout.flush()
        sys.stdout.write(f"result {handle.result()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
