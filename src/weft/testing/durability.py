"""
Runs a workflow of the user under faults, one at a time, and compares each run with one that had none.

    >>> from weft import Workflow, step
    >>> double = Workflow("double", step(lambda x: 2 * x, name="first") >> step(lambda x: 2 * x, name="second"))
    >>> report = check_durability(double, [21])
    >>> report.is_durable, sorted({repeated.component for repeated in report.repeated})
    (True, ['first', 'second'])

The faults are those that a process and a store have: the process dies before or while an append is committed, the store
fails or commits and says that it failed, attempts that are in flight together end in another order, the clock is set.
All of it happens on virtual time, in the code that runs in production, and is the same every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, Literal, TypeAlias

import msgspec

from weft.core import events as ev
from weft.core.run.run import Run
from weft.core.run.runnable import Runnable
from weft.core.workflow import Workflow
from weft.errors import (
    DurabilityBroken,
    InvalidOption,
    RunClosed,
    RunParked,
    StoreError,
    Stuck,
    TokenExpired,
    WeftError,
)
from weft.ports.store import FINISHED, Append
from weft.runner import AsyncRunner
from weft.stores import MemoryStore
from weft.testing.faults import Crash, Fault, FaultyStore
from weft.testing.loop import VirtualLoop
from weft.testing.runner import START
from weft.testing.simulation.children import read
from weft.testing.simulation.committed import Committed
from weft.testing.simulation.executor import Ending, SimulatedExecutor
from weft.testing.simulation.process import Connection, Moment, Weather
from weft.testing.simulation.scenario import Trial
from weft.testing.simulation.wall_clock import ProcessClock, WallClock

Compare: TypeAlias = Callable[[str, Any, Any], bool]
"""Says of a component, a value that it should have made and one that it made, whether they are the same."""
Kind: TypeAlias = Literal["plain", "kill before", "kill during", "unavailable", "ambiguous", "order", "clock"]

ID: Final = "checked"
"""The id of the runs: idempotency keys are derived from it."""
ORDERS: Final = 8
"""How many orders of completions are tried."""
_JUMPS: Final = (-7200.0, 7200.0)
_RESTART: Final = 1.0
"""Seconds until the next process begins."""
_ABSENT: Final = object()


class Case(msgspec.Struct, frozen=True):
    """One fault, at one place."""

    kind: Kind
    number: int = 0
    """The number of the append, order or timer."""
    place: str = ""
    """Where that is in the log of the run that had no fault."""
    by: float = 0.0
    """How many seconds the clock is set."""

    @property
    def name(self) -> str:
        """The name by which ``check_durability(only=...)`` repeats it."""
        if self.kind == "clock":
            return f"clock {self.by:+g} {self.number}"
        return self.kind if self.kind == "plain" else f"{self.kind} {self.number}"

    def __str__(self) -> str:
        return f"{self.name}{f' ({self.place})' if self.place else ''}"


class Repeated(msgspec.Struct, frozen=True):
    """A step that was executed again, which is to be expected: make its effects idempotent."""

    component: str
    case: Case


class Difference(msgspec.Struct, frozen=True):
    """A part of a run that was not what it is without a fault."""

    subject: str
    expected: str
    found: str
    case: Case

    def __str__(self) -> str:
        return f"{self.case}: {self.subject} should be {self.expected}, and is {self.found}"


class DurabilityReport(msgspec.Struct, frozen=True):
    """The result of :func:`check_durability`; ``str`` of it is a text for people."""

    workflow: str
    cases: int
    """How many faults were tried."""
    left_out: int
    """How many were not, because of *max_cases*."""
    seed: int
    repeated: tuple[Repeated, ...]
    differences: tuple[Difference, ...]

    @property
    def is_durable(self) -> bool:
        """Whether every run came to the same."""
        return not self.differences

    def __str__(self) -> str:
        left = f", {self.left_out} left out (max_cases=)" if self.left_out else ""
        lines = [f"{self.workflow}: {self.cases} faults tried{left}, {len(self.differences)} differences"]
        lines += [
            f"  {each}\n    repeat it: check_durability(..., only={each.case.name!r})" for each in self.differences
        ]
        again: dict[str, list[str]] = {}
        for each in self.repeated:
            again.setdefault(each.component, []).append(str(each.case))
        for component, cases in again.items():
            more = f", and {len(cases) - 3} more" if len(cases) > 3 else ""
            lines.append(f"  {component!r} was executed again after: {', '.join(cases[:3])}{more}")
        return "\n".join(lines)


def check_durability(
    workflow: Workflow,
    inputs: Sequence[Any],
    *,
    signals: Sequence[tuple[str, Any]] = (),
    completions: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    children: Collection[Workflow] = (),
    ignore: Collection[str] = (),
    compare: Compare | None = None,
    max_cases: int = 500,
    seed: int = 0,
    only: str | None = None,
    threads: bool = False,
    raises: bool = True,
) -> DurabilityReport:
    """
    Run *workflow* once without a fault and then once with each fault, and report where a run came to something else.

    A step may be executed again after a fault, so its effects must be idempotent; that is reported, and not a failure.
    The functions are really called, many times: give the workflow only effects that a test may have.

    Args:
        inputs: all of them are sent to one run, which then finishes.
        signals: names and values, sent after the inputs.
        completions: by external step, the value that completes it, or the exception that fails each of its attempts.
        context: the context of the run.
        children: the workflows that its steps start.
        ignore: components that make something else every time; what follows from them is not compared either.
        compare: a function of a component and two values that returns whether they are the same; equality if not given.
        max_cases: how many faults are tried at most; if there are more, this many are drawn.
        seed: draws them, and the orders of completions.
        only: the name of one fault, as a report says it, to repeat it alone.
        threads: whether plain functions wait for child runs, so that they need threads.
        raises: whether differences raise; if not, the report has them.

    Raises:
        DurabilityBroken: a run came to something else; the error has the ``report``.
        InvalidOption: there is no input, no such component or fault, or the run does not come to an end without a
            fault either: then nothing would have been shown.
    """
    if not inputs:
        raise InvalidOption("check_durability(workflow, inputs): give it an input, as in check_durability(w, [1])")
    if unknown := sorted(set(ignore) - set(workflow.components)):
        raise InvalidOption(f"ignore={unknown}: the workflow has no such components")
    outside = dict(completions or {})
    if unknown := sorted(set(outside) - set(workflow.compiled.nodes)):
        raise InvalidOption(f"completions={unknown}: the workflow has no such components")
    world = _World(workflow, tuple(inputs), tuple(signals), outside, dict(context or {}), tuple(children), threads)
    plain = world.run(Case("plain"), seed)
    _check_end(plain)
    compared = _Comparison(workflow, ignore, compare, plain)
    cases = list(_cases(plain))
    if only is not None:
        chosen = [case for case in cases if case.name == only]
        if not chosen:
            raise InvalidOption(f"only={only!r}: there is no such fault; a report says the names")
    else:
        count = min(max_cases, len(cases))
        chosen = [cases[place] for place in sorted(Random(seed).sample(range(len(cases)), count))]  # noqa: S311
    differences = list(compared.differences(world.run(Case("plain"), seed), Case("plain")))
    repeated: list[Repeated] = []
    for case in chosen:
        came = world.run(case, seed)
        repeated += [Repeated(component, case) for component in came.repeated]
        differences += compared.differences(came, case)
    report = DurabilityReport(
        workflow.name, len(chosen), len(cases) - len(chosen), seed, tuple(repeated), tuple(differences)
    )
    if raises and not report.is_durable:
        raise DurabilityBroken(report)
    return report


def _check_end(plain: _Came) -> None:
    """Refuse a run that does not end without a fault."""
    if plain.status in (*FINISHED, "parked"):
        return
    waits = [] if plain.run is None else plain.run.waiting_for
    hint = ""
    if waits:
        names = ", ".join(map(repr, waits))
        hint = f"; it waits for {names}: pass signals=[(name, value)], or completions={{name: value}} of external steps"
    raise InvalidOption(
        f"without a fault the run does not come to an end, so faults would show nothing: {plain.error or plain.status}"
        f"{hint}"
    )


# -- one run ---------------------------------------------------------------------------------------


class _Came(msgspec.Struct):
    """A run that has had its fault."""

    status: str
    run: Run | None
    appends: list[int]
    """The length of the log after each append of the first process."""
    repeated: list[str]
    together: bool
    """Whether attempts were in flight together."""
    error: str = ""


class _World(msgspec.Struct, frozen=True):
    """A workflow, and what it is given."""

    workflow: Workflow
    inputs: tuple[Any, ...]
    signals: tuple[tuple[str, Any], ...]
    completions: Mapping[str, Any]
    context: Mapping[str, Any]
    children: tuple[Workflow, ...]
    threads: bool

    def run(self, case: Case, seed: int) -> _Came:
        """Return the run of the workflow with this fault."""
        return _Running(self, case, seed).run()


class _Counted(Connection):
    """A connection that notes how long the log was after each append."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.lengths: list[int] = []

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write *batch*."""
        results = await super().append(batch)
        self.lengths.append(max((each.head for each in batch if each.run == ID), default=0))
        return results


class _Running:
    """The processes of one run, one after the other."""

    def __init__(self, world: _World, case: Case, seed: int) -> None:
        self.world, self.case = world, case
        self.dice = Random(f"{seed} {case.number}")  # noqa: S311 - the same every time
        self.store, self.clock, self.committed = MemoryStore(), WallClock(), Committed()
        self.life, self.now = 0, START
        self.begun: dict[str, set[int]] = {}
        """By idempotency key: the lives in which it was executed."""
        self.again: dict[str, None] = {}
        self.in_flight = 0
        self.together = False

    def run(self) -> _Came:
        error, appends = "", list[int]()
        status = None
        while status is None:
            self.life += 1
            self.in_flight = 0
            is_first = self.life == 1
            connection = self._connect(is_first=is_first)
            loop = VirtualLoop(self.now, before_turn=lambda _, own=connection: _check_alive(own))  # type: ignore[misc]
            try:
                status = loop.run_until_complete(self._process(connection))
            except Crash:
                self.store.crash()
            except Stuck as stuck:
                status, error = "stuck", str(stuck)
                self.store.crash()
            except WeftError as raised:
                status, error = "error", f"{type(raised).__name__}: {raised}"
            finally:
                connection.die()
                self.now = loop.time() + _RESTART
                loop.kill()
            if is_first:
                appends = connection.lengths
        return _Came(status, self._read(), appends, list(self.again), self.together, error)

    def _connect(self, *, is_first: bool) -> _Counted:
        case, script = self.case, dict[tuple[str, int], Fault]()
        if is_first and case.kind == "unavailable":
            script["append", case.number] = Fault.fail()
        if is_first and case.kind == "ambiguous":
            script["append", case.number] = Fault.fail_after()
        moment: Moment = "before" if case.kind == "kill before" else "during"
        dies = (case.number, moment)
        is_killed = is_first and case.kind in ("kill before", "kill during")
        inner = FaultyStore(self.store, script)
        return _Counted(inner, self.dice, Weather(), _ignore, self.committed, dies if is_killed else None)

    async def _process(self, connection: Connection) -> str:
        world = self.world
        executors = {name: self._executor() for name in ("inline", "thread", "process", "async")}
        clock = ProcessClock(self.clock)
        runner = AsyncRunner(
            connection, executors=executors, clock=clock, context=world.context, blocking_threshold=None
        )
        await runner.open()
        dispatcher = runner._runtime.dispatcher  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        dispatcher.draw = lambda: 0.5
        runner.register(world.workflow, *world.children)
        if self.case.kind == "clock" and self.life == 1:
            at, dispatcher.timers.nap = _moment(self.case), _nap(self.case)
            asyncio.get_running_loop().call_at(at, self._set_clock)
        try:
            return await self._use(runner)
        finally:
            await runner.close(grace=0.0)

    def _set_clock(self) -> None:
        self.clock.set(at=asyncio.get_running_loop().time(), by=self.case.by)

    async def _use(self, runner: AsyncRunner) -> str:
        world = self.world
        if len(world.inputs) == 1:
            await runner.start(world.workflow, world.inputs[0], id=ID)
        else:
            await runner.start(world.workflow, id=ID, if_exists="return", open=True)
            for number, value in enumerate(world.inputs):
                await runner.send(ID, value, key=f"input {number}")
            await runner.finish(ID)
        for number, (name, value) in enumerate(world.signals):
            try:
                await runner.signal(ID, name, value, key=f"signal {number}")
            except RunClosed:
                break
        if world.completions:
            await self._complete(runner)
        try:
            await runner.wait(ID)
        except RunParked:
            return "parked"
        return await runner.status(ID)

    async def _complete(self, runner: AsyncRunner) -> None:
        """Complete the external steps of the run as they come, until it has ended."""
        answered, completions = set[str](), self.world.completions

        def opened(run: Run) -> list[tuple[str, str]]:
            tokens = run.tokens.items()
            return [(token, name) for token, name in tokens if name in completions and token not in answered]

        while True:
            try:
                run = await runner.wait_until(ID, lambda run: bool(opened(run)))
            except (RunClosed, RunParked):
                return
            for token, name in opened(run):
                answered.add(token)
                value = completions[name]
                with suppress(TokenExpired, RunClosed):  # an earlier process was answered, and its answer counts
                    if isinstance(value, BaseException):
                        await runner.fail(token, value)
                    else:
                        await runner.complete(token, value)

    def _executor(self) -> SimulatedExecutor:
        blocks = _on_a_thread if self.world.threads else None
        return SimulatedExecutor(self._lasts, max_workers=16, watcher=self, blocks=blocks)

    def _lasts(self, _: Runnable) -> float:
        return self.dice.random() if self.case.kind == "order" else 0.0

    def begins(self, runnable: Runnable) -> None:
        """Note that an attempt begins."""
        lives = self.begun.setdefault(runnable.lineage.idempotency_key(runnable.run_id, *runnable.key), set())
        if lives and self.life not in lives:
            self.again[runnable.component] = None
        lives.add(self.life)
        self.in_flight += 1
        self.together = self.together or self.in_flight > 1

    def ends(self, runnable: Runnable, ending: Ending) -> None:  # noqa: ARG002 - as an executor calls it
        """Note that an attempt has ended."""
        self.in_flight -= 1

    def _read(self) -> Run | None:
        """Return the run as the store has it."""

        async def stored() -> Run | None:
            async with self.store:
                if not await self.store.exists(ID):
                    return None
                trial = Trial(self.world.workflow, (), context=self.world.context)
                return (await read(self.store, ID, trial, None)).run

        loop = VirtualLoop()
        try:
            return loop.run_until_complete(stored())
        finally:
            loop.kill()


def _on_a_thread(_: Runnable) -> bool:
    return True


def _check_alive(connection: Connection) -> None:
    if connection.is_dying:
        raise Crash


def _ignore(_: str) -> None:
    """Do nothing: a report has no story."""


def _moment(case: Case) -> float:
    """Return when the clock is set: right after the timer was started."""
    return float(case.place.rpartition(" ")[2]) + START + 1e-3


def _nap(case: Case) -> float:
    return max(1.0, abs(case.by) / 100)


# -- all faults ------------------------------------------------------------------------------------


def _cases(plain: _Came) -> Iterator[Case]:
    """Yield every fault that can happen to a run that went as *plain* did."""
    log = plain.run.log() if plain.run is not None else []
    for number, length in enumerate(plain.appends, start=1):
        place = f"event {length}, {_described(log[length - 1])}" if 0 < length <= len(log) else ""
        for kind in ("kill before", "kill during", "unavailable", "ambiguous"):
            yield Case(kind, number, place)
    if plain.together:
        for number in range(1, ORDERS + 1):
            yield Case("order", number)
    timers = [event for event in log if isinstance(event, ev.TimerStarted) and event.due > event.at]
    for number, event in enumerate(timers, start=1):
        for by in _JUMPS:
            yield Case("clock", number, f"timer of {event.component!r} at {event.at - START:.3f}", by)


def _described(event: Any) -> str:
    component = getattr(event, "component", None)
    return type(event).__name__ if component is None else f"{type(event).__name__} of {component!r}"


# -- what is the same ------------------------------------------------------------------------------


class _Comparison:
    """Compares runs with one that had no fault."""

    def __init__(self, workflow: Workflow, ignore: Collection[str], compare: Compare | None, plain: _Came) -> None:
        self._compare = compare or _is_equal
        self._plain = plain
        self._ignored = _downstream(workflow, set(ignore))
        self._components = [name for name in workflow.components if name not in self._ignored]

    def differences(self, came: _Came, case: Case) -> Iterator[Difference]:
        """Yield the differences from the run without a fault."""
        if came.status != self._plain.status:
            found = came.status if not came.error else f"{came.status}: {came.error}"
            yield Difference("the status", self._plain.status, found, case)
        if came.run is None or self._plain.run is None:
            if came.run is not self._plain.run:
                yield Difference("the run", "stored", "not stored", case)
            return
        for name in self._components:
            yield from self._of(name, self._plain.run, came.run, case)
        wanted, failed = self._failures(self._plain.run), self._failures(came.run)
        if wanted != failed:
            yield Difference("what failed", str(wanted), str(failed), case)

    def _of(self, name: str, plain: Run, run: Run, case: Case) -> Iterator[Difference]:
        left = list(run.values(name))
        wanted = list(plain.values(name))
        missing: list[Any] = []
        for value in wanted:
            place = next((at for at, other in enumerate(left) if self._compare(name, value, other)), None)
            if place is None:
                missing.append(value)
            else:
                del left[place]
        if missing or left:
            yield Difference(f"what {name!r} made", _short(wanted), _short(run.values(name)), case)
        before, after = _state(plain, name), _state(run, name)
        if before is not after and not self._compare(name, before, after):
            yield Difference(f"the state of {name!r}", _short(before), _short(after), case)

    def _failures(self, run: Run) -> dict[str, str]:
        named = (event for event in run.log() if isinstance(event, ev.RunnableFailed))
        return {
            event.component: event.error.type
            for event in named
            if event.component in run.failures and event.component not in self._ignored
        }


def _downstream(workflow: Workflow, names: set[str]) -> set[str]:
    """Return *names*, and every component that gets something of theirs."""
    wiring, found = workflow.wiring, set(names)
    while True:
        more = {
            name
            for name in workflow.components
            if name not in found
            and found.intersection(
                *[{parent for inlet in wiring.fed_by(name) for parent in inlet.parents} | {*_refers(wiring, name)}]
            )
        }
        if not more:
            return found
        found |= more


def _refers(wiring: Any, name: str) -> Collection[str]:
    return tuple(wiring.components[name].refers_to())


def _state(run: Run, name: str) -> Any:
    try:
        return run.state_of(name)
    except WeftError:
        return _ABSENT


def _is_equal(_: str, one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - arrays, for one, have no single answer
        return repr(one) == repr(other)


def _short(value: Any) -> str:
    return f"{value!r:.200}"
