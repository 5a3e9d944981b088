"""
A step that starts other runs, whose steps start others: waited for, left alone or cancelled, with what becomes of all
of them in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any, ClassVar, Literal

import msgspec
from pieces import Arrivals, Came, Lost, Message, Piece, bare, refuse

from weft import Run, Workflow, context, current, step
from weft.core.events import InputReceived
from weft.errors import RunClosed, RunFailed
from weft.testing.simulation.scenario import UNWANTED

Steps = Generator[tuple[str, tuple[Any, ...], dict[str, Any]], Any, Any]
"""The actions of a step on its children, one thing after another, whether it blocks or awaits."""


class Start(msgspec.Struct, frozen=True):
    """That a step starts a child, or several of the same kind."""

    child: Child
    offset: int
    count: int
    fate: Literal["awaited", "left", "cancelled"]
    goes_along: bool
    """Whether it is cancelled with its parent."""
    is_named: bool
    """Whether the step says what it is called."""
    is_seen_off: bool
    """Whether the step sees to it at once, and not when it has started all of them."""
    is_forgiven: bool
    """Whether the step goes on when it fails."""


class Child(msgspec.Struct, frozen=True):
    """A run that a step starts."""

    name: str
    bad: int
    """It fails on what this divides."""
    goes_on: bool
    """Whether it has a second step."""
    starts: tuple[Start, ...]
    is_plain: bool = False
    """Whether its first step is a plain function, which waits on a thread."""

    @property
    def begin(self) -> str:
        """The name of its first step."""
        return f"{self.name}_begin"

    def workflow(self) -> Workflow:
        """Return what it runs."""
        bad = self.bad
        alone: Callable[..., Any] = lambda x: (refuse(x, bad), [])  # noqa: E731 - it shall have no annotations
        begin = starting(self.starts, bad, is_plain=self.is_plain) if self.starts else alone
        first: Any = step(begin, name=self.begin)
        then = step(lambda made: ["then", *made], name=f"{self.name}_then")
        return Workflow(self.name, first >> then if self.goes_on else first)

    def all(self) -> Iterator[Child]:
        """Yield it, and its children."""
        yield self
        for start in self.starts:
            yield from start.child.all()

    def live(self, x: int) -> Life:
        """Return what becomes of one that is given *x*."""
        if self.bad and x % self.bad == 0:
            return Life(self.name, x, FAILED)
        made, creations = live(self.starts, x)
        if made is not FAILED and self.goes_on:
            made = ["then", *made]
        return Life(self.name, x, made, creations)


FAILED: Any = ...
"""The outcome of a step that fails."""


class Life(msgspec.Struct, eq=False):
    """The end of a run."""

    name: str
    given: int
    made: Any
    creations: list[tuple[bool, Life]] = []
    """The runs that it starts, and whether they go along."""
    is_cancelled: bool = False

    def __str__(self) -> str:
        """Return it as text that is the same for the same life."""
        if self.is_cancelled:
            return f"{self.name}({self.given}) cancelled"
        made = "failed" if self.made is FAILED else repr(self.made)
        return f"{self.name}({self.given}) = {made}{told(self.creations)}"


def told(creations: list[tuple[bool, Life]]) -> str:
    """Return *births* as text, in any order."""
    lines = sorted(f"{life}{' along' * along}" for along, life in creations)
    return f" [{', '.join(lines)}]" if creations else ""


def see_to(starts: tuple[Start, ...], x: int, children: Mapping[str, Workflow]) -> Steps:
    """Start all children, and wait for them or not; yield what is to be done for that."""
    here, made, left = current(), list[Any](), list[tuple[Start, Any]]()
    for start in starts:
        for number in range(start.count):
            name = f"{here.run_id}~{here.idempotency_key[:12]}~{start.child.name}{number}" if start.is_named else None
            options = {"id": name, "cancel_with_parent": start.goes_along}
            value, given = x + start.offset + number, (children[start.child.name],)
            if start.fate == "cancelled":  # it must not have finished before, so it is an open one
                handle = yield "start", given, options
                yield "send", (handle, value), {}
            else:
                handle = yield "start", (*given, value), options
            if start.is_seen_off:
                made.append((yield from see_off(start, handle)))
            else:
                left.append((start, handle))
    for start, handle in left:
        made.append((yield from see_off(start, handle)))
    return (x, made)


def see_off(start: Start, handle: Any) -> Steps:
    """Do with a child what is to be done."""
    match start.fate:
        case "left":
            return "left"
        case "cancelled":
            yield "cancel", (handle,), {}
            return "cancelled"
        case "awaited":
            try:
                return (yield "wait", (handle,), {})
            except RunFailed:
                if start.is_forgiven:
                    return "failed"
                raise


def in_thread(steps: Steps) -> Any:
    """Do it in a plain function."""
    given, raised = None, None
    while True:
        try:
            what, args, options = steps.send(given) if raised is None else steps.throw(raised)
        except StopIteration as end:
            return end.value
        given, raised = None, None
        try:
            match what:
                case "start":
                    given = current().start_child(*args, **options)
                case "send":
                    with suppress(RunClosed):  # an earlier attempt has cancelled it
                        args[0].send(args[1], key="its only one")
                case "cancel":
                    args[0].cancel(UNWANTED)
                case _:
                    given = args[0].result()
        except RunFailed as error:
            raised = error


async def in_loop(steps: Steps) -> Any:
    """Do it in a coroutine function."""
    given, raised = None, None
    while True:
        try:
            what, args, options = steps.send(given) if raised is None else steps.throw(raised)
        except StopIteration as end:
            return end.value
        given, raised = None, None
        try:
            match what:
                case "start":
                    given = await current().astart_child(*args, **options)
                case "send":
                    with suppress(RunClosed):
                        await args[0].send(args[1], key="its only one")
                case "cancel":
                    await args[0].cancel(UNWANTED)
                case _:
                    given = await args[0].result()
        except RunFailed as error:
            raised = error


def starting(starts: tuple[Start, ...], bad: int, *, is_plain: bool) -> Callable[..., Any]:
    """Return the function of a step that starts children, unless *bad* divides what it gets."""

    def plain(x: int, children: Any = context("children")) -> Any:
        return in_thread(see_to(starts, refuse(x, bad), children))

    async def awaited(x: int, children: Any = context("children")) -> Any:
        return await in_loop(see_to(starts, refuse(x, bad), children))

    return bare(plain if is_plain else awaited)


def live(starts: tuple[Start, ...], x: int) -> tuple[Any, list[tuple[bool, Life]]]:
    """Return what a step makes that starts all this on *x*, and what becomes of its children."""
    made, later, creations = list[Any](), list[tuple[Start, Life]](), list[tuple[bool, Life]]()
    for start in starts:
        for number in range(start.count):
            life = start.child.live(x + start.offset + number)
            creations.append((start.goes_along, life))
            if not start.is_seen_off:
                later.append((start, life))
            elif (result := seen_off(start, life)) is FAILED:
                return FAILED, creations
            else:
                made.append(result)
    for start, life in later:
        if (result := seen_off(start, life)) is FAILED:
            return FAILED, creations
        made.append(result)
    return (x, made), creations


def seen_off(start: Start, life: Life) -> Any:
    """Return what a step makes of a child."""
    life.is_cancelled = start.fate == "cancelled"
    if start.fate != "awaited":
        return start.fate
    return "failed" if life.made is FAILED and start.is_forgiven else life.made


class Family(Piece, frozen=True):
    """A step that starts other runs."""

    is_stateful: ClassVar[bool] = False
    makes_one: ClassVar[bool] = True
    starts: tuple[Start, ...]
    is_plain: bool = False
    """Whether the step is a plain function, which waits on a thread."""

    @staticmethod
    def draw(name: str, dice: Random) -> Family:
        """Return one with children, and perhaps grandchildren."""
        return Family(name, draw_starts(name, dice, depth=dice.choice((1, 1, 2, 3))), dice.random() < 0.4)

    def message(self, number: int) -> Message:
        return number % 30

    @property
    def children(self) -> dict[str, Workflow]:
        """The workflows that it and its children start, by name."""
        return {child.name: child.workflow() for start in self.starts for child in start.child.all()}

    @property
    def patient(self) -> tuple[str, ...]:
        """The steps of children that wait for others."""
        return tuple(child.begin for start in self.starts for child in start.child.all() if child.starts)

    def component(self) -> Any:
        return step(starting(self.starts, 0, is_plain=self.is_plain), name=self.name)

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came()
        for _, x in arrivals:
            made, creations = live(self.starts, x)
            came.facts.append([] if made is FAILED else [made])
            came.creations += creations
            if made is FAILED:
                came.failed.add("")
        return came


def draw_starts(name: str, dice: Random, depth: int) -> tuple[Start, ...]:
    """Return what a step starts, up to *depth* generations."""
    starts: list[Start] = []
    for number in range(dice.choice((1, 1, 2))):
        called = f"{name}_{number}"
        below = draw_starts(called, dice, depth - 1) if depth > 1 else ()
        child = Child(called, dice.choice((0, 0, 3, 5)), dice.random() < 0.3, below, dice.random() < 0.4)
        starts.append(
            Start(
                child,
                offset=dice.randint(0, 5),
                count=dice.choice((1, 1, 1, 2)),
                fate=dice.choice(("awaited", "awaited", "awaited", "left", "left", "cancelled")),
                goes_along=dice.random() < 0.6,
                is_named=dice.random() < 0.3,
                is_seen_off=dice.random() < 0.5,
                is_forgiven=dice.random() < 0.5,
            )
        )
    return tuple(starts)


def lives(run: Run, runs: Mapping[str, Run]) -> list[tuple[bool, Life]]:
    """Return what became of the children of *run*, of which those that exist are among *runs*."""
    found: list[tuple[bool, Life]] = []
    for name, started in (run.memory.children or {}).items():
        child = runs.get(name)
        if child is None:
            found.append((started.with_parent, Life(f"{name}, which does not exist", 0, None)))
            continue
        made = child.values(list(child.workflow.components)[-1])
        value = next((event.value for event in child.memory.log if isinstance(event, InputReceived)), 0)
        life = Life(child.workflow.name, value, made[-1] if made else FAILED, lives(child, runs))
        life.is_cancelled = child.memory.cancelled is not None
        found.append((started.with_parent, life))
    return found
