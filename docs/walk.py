"""
Prints the way of one input through the runner: ``python docs/walk.py``.

A switch is a call from a method of one object of ``weft.runner`` to a method of another one.  Two parts of the way of
a step on a thread are counted:

- start: from when the runnable is ready until its executor has it;
- end: from when its outcome is collected until it is in the run.

They are counted for a step that takes the straight lane, and for one that does not, since another step of its workflow
has a policy.  Returns that come before the end of a part are counted apart: each is one more change of place for a
reader.

Nothing of it waits for a commit: the run is stored before, and is written by hand.
"""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any, NamedTuple

from weft import Policy, Workflow, step
from weft.runner import AsyncRunner

READY = {"queue_ready", "start_upcoming"}
"""The functions that take what is ready into the queue of a worker, or into its lane."""
IN_THE_RUN = {"settle", "apply_outcome", "react"}
"""The functions of the core that take an outcome into a run."""


class Switch(NamedTuple):
    """A call from one object to another."""

    caller: str
    called: str


class Walk:
    """Records the switches between objects of the runner, on the thread that it was started on."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Switch]] = {"start": [], "end": []}
        self.returns = {"start": 0, "end": 0}
        self._part: list[Switch] | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take one event of ``sys.setprofile``."""
        del argument
        module, function = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        if event == "call":
            if function in READY and not self.parts["start"]:
                self._part = self.parts["start"]
            elif (function in IN_THE_RUN and module.startswith(("weft.core.run.", "weft.core.fold."))) or (
                function == "submit" and module.startswith("weft.executors")
            ):
                self._part = None
            elif self._part is not None and (switch := _switch(frame)) is not None:
                self._part.append(switch)
        elif event == "return" and module.startswith("weft.executors") and function == "collect":
            if self.parts["start"] and not self.parts["end"] and self._part is None:
                self._part = self.parts["end"]
        elif event == "return" and self._part and _switch(frame) is not None:
            self.returns["end" if self._part is self.parts["end"] else "start"] += 1


def _switch(frame: FrameType) -> Switch | None:
    """Return the switch by which *frame* was called, if it was one."""
    called = _owner(frame)
    caller = next((found for found in map(_owner, _stack(frame.f_back)) if found is not None), None)
    if called is None or caller is None or caller is called:
        return None
    return Switch(type(caller).__name__, f"{type(called).__name__}.{frame.f_code.co_name}")


def _owner(frame: FrameType) -> object | None:
    """Return the object of the runner whose method runs in *frame*, if it is one."""
    found = frame.f_locals.get("self")
    return found if type(found).__module__.startswith("weft.runner.") else None


def _stack(frame: FrameType | None) -> list[FrameType]:
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


async def walk(*, is_straight: bool) -> Walk:
    """Follow one input through a run that is stored and idle, whose step takes the straight lane or does not."""
    found = Walk()
    flow = step(lambda x: x + 1, name="add") >> step(str, name="write")
    workflow = Workflow("walk", flow, policies=[] if is_straight else [("write", Policy(max_retries=1))])
    async with AsyncRunner(executor="thread", checkpoint="manual") as runner:
        # once, so that nothing is done for the first time
        handle = await runner.start(workflow, 1, id="walk", open=True)
        await handle.result()
        sys.setprofile(found)
        handle = await runner.send("walk", 2)
        await handle.result()
        sys.setprofile(None)
    return found


def lines_of(found: Walk) -> list[str]:
    """Return the walk as lines of Markdown."""
    titles = {"start": "From ready to the executor", "end": "From the outcome into the run"}
    lines: list[str] = []
    for part, switches in found.parts.items():
        lines += [f"{titles[part]}, {len(switches)} switches (and {found.returns[part]} returns):", ""]
        lines += [f"{number}. {each.caller} → `{each.called}`" for number, each in enumerate(switches, 1)]
        lines.append("")
    return lines


if __name__ == "__main__":
    for title, is_straight in (("In the straight lane", True), ("Beside a step that has a policy", False)):
        print("\n".join([f"## {title}", "", *lines_of(asyncio.run(walk(is_straight=is_straight)))]))
