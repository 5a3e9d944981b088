"""Small workflows, and a step that a test holds, for the tests of the runner."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from weft import Workflow, current, step

double = step(lambda x: x * 2, name="double")
increment = step(lambda x: x + 1, name="increment")
chain = Workflow("chain", double >> increment)


class Gate:
    """A step that says when it has begun, and ends when it is let."""

    def __init__(self) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        self.calls: list[Any] = []

    def __call__(self, x: Any) -> Any:
        self.calls.append(x)
        self.begun.set()
        assert self.opened.wait(20)
        return x


def write_numbers(asked: tuple[int, str]) -> int:
    """Write numbers to a stream, and one item more once there is a file."""
    count, gate = asked
    for number in range(count):
        current().stream("numbers").write(number)
        current().progress(number + 1, count)
    while not Path(gate).exists():
        time.sleep(0.01)
    current().stream("numbers").write("last")
    return count


def write_token(path: str) -> None:
    """Hand the token of an external step to a file."""
    Path(path).write_text(current().token)


def hang(begun: str) -> None:
    """Say that it has begun, and take an hour; a worker process can import it, too."""
    Path(begun).touch()
    threading.Event().wait(3_600)


def broken(_: object) -> None:
    """Fail, in a worker process as elsewhere."""
    raise OSError("down")


def hands_out_an_object(_: object) -> object:
    """Return what is not data, in a worker process as elsewhere."""
    return object()
