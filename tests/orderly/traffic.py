"""
Many callers of a few runs: their calls, the answers, and whether these were true.

The runs are of five sorts, by the first letter of their id, because the laws for them differ:

- ``a``: started open, given inputs, stopped with all the time they need, resumed.  Every law holds.
- ``f``: started with their input, so that they finish, and retried; or open, and told to finish.
- ``g``: as those, and stopped with hardly any grace time: what such a stop left behind may be executed again.
- ``c``: as ``a``, and cancelled.
- ``d``: as ``a``, and deleted: what was acknowledged before a delete is gone with it.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import weft
from weft import AsyncRunner, Policy, Run, Workflow, errors, step
from weft.core.events import AnyEvent, InputReceived, RunCancelled, RunFinished
from weft.log import references, verify
from weft.log.messages import decode_message
from weft.runner.durability.recovery import recover
from weft.stores import SQLiteStore

RUNS = ("a0", "a1", "a2", "f0", "f1", "f2", "g0", "g1", "c0", "c1", "d0")
LONG, SHORT = 600.0, (0.0, 0.001)
"""Grace times in which every step ends, and in which some do not."""
DEADLINE = 60.0
"""How many seconds no case takes, unless something hangs, or waits until a grace time is over."""


# -- what is executed ----------------------------------------------------------------------------


class Ledger:
    """A record of what was executed, and of what callers were told; used from all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[tuple[str, str]] = set()
        self.executions: Counter[tuple[str, str]] = Counter()
        """By run and idempotency key."""
        self.problems: list[str] = []
        self.taken: dict[str, set[str]] = defaultdict(set)
        """By run: the keys of inputs that were acknowledged."""
        self.begun: set[str] = set()
        """The runs whose start was acknowledged."""
        self.cancelled: set[str] = set()
        """The runs whose cancelling was acknowledged."""
        self.finished: set[str] = set()
        """The runs that were told to finish, which was acknowledged."""
        self.outcomes: Counter[str] = Counter()
        """How calls have ended, for who wants to know what a case was about."""
        self.is_closing = False
        """Whether the runner is being closed, or is closed."""
        self.is_moody = False
        """Whether the store is, so that it may be unavailable when the runner is closed."""

    @contextmanager
    def executing(self, run: str, key: str) -> Iterator[None]:
        """Count an execution, and see that there is no other one at the same time."""
        name = (run, key)
        with self._lock:
            self.executions[name] += 1
            if name in self._running and not run.startswith("g"):  # a thread that was left behind cannot be ended
                self.problems.append(f"{run}: a step was executed twice at the same time")
            self._running.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(name)

    def returned(self, call: Call) -> None:
        """A call has returned."""
        with self._lock:
            self.outcomes[f"{call.method} returned"] += 1
            if call.run is None:
                return
            if call.method == "send":
                self.taken[call.run].add(call.options["key"])
            elif call.method.startswith("start"):
                self.begun.add(call.run)
            elif call.method == "cancel":
                self.cancelled.add(call.run)
            elif call.method == "finish":
                self.finished.add(call.run)

    def raised(self, call: Call, error: BaseException) -> None:
        """A call has raised *error*."""
        name = type(error).__name__
        with self._lock:
            self.outcomes[f"{call.method} raised {name}"] += 1
            allowed = set(ALLOWED[call.method])
            if self.is_closing and call.method != "close":
                allowed |= {"RunnerClosed", "StoreUnavailable"} if self.is_moody else {"RunnerClosed"}
            if name not in allowed:
                self.problems.append(f"{call.method}({call.run!r}) raised {name}: {error}")


def orders(ledger: Ledger) -> Workflow:
    """Return a workflow whose steps are counted, one of which fails for some inputs and is kept as a dead letter."""

    def work(x: int) -> int:
        now = weft.current()
        with ledger.executing(now.run_id, now.idempotency_key):
            time.sleep(0.0005)
        return x

    async def ask(x: int) -> int:
        now = weft.current()
        with ledger.executing(now.run_id, now.idempotency_key):
            await asyncio.sleep(0.0005)
        return x

    def fragile(x: int) -> int:
        if x % 5 == 0:
            raise ValueError(x)
        return x

    first, second = step(work, name="first"), step(ask, name="second")
    rules = [("fragile", Policy(on_failure="dead_letter"))]
    return Workflow("orders", first >> second >> step(work, name="third"), step(fragile)).with_policies(rules)


# -- what callers do -----------------------------------------------------------------------------

_NOT_HERE = {"RunNotFound", "RunNotHeld"}
_CLOSED = _NOT_HERE | {"RunClosed"}

ALLOWED: dict[str, set[str]] = {
    "start": {"RunExists"},
    "start or return": set(),
    "start without input": {"RunExists"},
    "send": _CLOSED,
    "wait": _NOT_HERE | {"WaitTimeout"},
    "wait_until": _CLOSED | {"WaitTimeout"},
    "result": _CLOSED | {"WaitTimeout", "RunFailed", "NothingProduced"},
    "results": _NOT_HERE,
    "get": _NOT_HERE,
    "log": _NOT_HERE,
    "status": _NOT_HERE,
    "find": _NOT_HERE,
    "runs": set(),
    "count": set(),
    "delete": _NOT_HERE,
    "checkpoint": _NOT_HERE,
    "stop": _NOT_HERE,
    "resume": _NOT_HERE,
    "resume_all": set(),
    "cancel": _CLOSED,
    "finish": _CLOSED,
    "set_policies": _CLOSED,
    "preview": _CLOSED,
    "retry": _CLOSED | {"NoSuchLetter"},
    "discard": _CLOSED | {"NoSuchLetter"},
    "close": set(),
}
"""The errors that each method may raise here, besides RunnerClosed when the runner is closed; no other is allowed."""

_WEIGHTS = {
    "start": 10,
    "start or return": 10,
    "start without input": 3,
    "send": 30,
    "wait": 5,
    "wait_until": 3,
    "result": 3,
    "stop": 6,
    "resume": 12,
    "resume_all": 5,
    "checkpoint": 3,
    "cancel": 1,
    "finish": 2,
    "delete": 3,
    "set_policies": 2,
    "retry": 2,
    "discard": 2,
}
"""How often each method is called; the others once each."""


class Call(NamedTuple):
    """One call of a method of a runner."""

    method: str
    run: str | None
    """The run that the call is about."""
    args: tuple[Any, ...]
    options: dict[str, Any]

    def of(self, runner: Any) -> Any:
        """Make the call; of an asynchronous runner, return what is to be awaited."""
        return getattr(runner, self.method.partition(" ")[0])(*self.args, **self.options)


class Caller:
    """Draws the calls of one caller from a seed."""

    def __init__(self, seed: object, name: str, workflow: Workflow) -> None:
        self._dice = random.Random(f"{seed} {name}")  # noqa: S311 - it should be the same every time
        self._name, self._workflow = name, workflow
        self._count = 0
        self._pending: Call | None = None
        """An input that was given and not acknowledged."""
        self._methods = [method for method in ALLOWED if method != "close"]
        self._weights = [_WEIGHTS.get(method, 1) for method in self._methods]

    @property
    def dice(self) -> random.Random:
        """The random numbers that it draws from."""
        return self._dice

    def next(self) -> Call:
        """Return the next call; an input that was not acknowledged is often given again, under the same key."""
        dice = self._dice
        if self._pending is not None and dice.random() < 0.5:
            return self._pending
        self._count += 1
        method = dice.choices(self._methods, self._weights)[0]
        run = dice.choice(_SORTS.get(method, RUNS))
        call = self._drawn(method, run)
        if method == "run":
            self._pending = call
        return call

    def done(self, call: Call) -> None:
        """*call* has returned."""
        if call is self._pending:
            self._pending = None

    def _drawn(self, method: str, run: str) -> Call:
        dice, workflow = self._dice, self._workflow
        value, timeout = dice.randrange(1000), dice.choice((0.0, 0.002, 0.02))
        is_open = run[0] != "f" or dice.random() < 0.3
        policies = [("first", Policy(max_retries=dice.choice((0, 1))))]
        calls: dict[str, Callable[[], Call]] = {
            "start": lambda: Call(method, run, (workflow, value), {"id": run, "open": is_open}),
            "start or return": lambda: Call(
                method, run, (workflow, value), {"id": run, "open": is_open, "if_exists": "return"}
            ),
            "start without input": lambda: Call(
                "start without input", run, (workflow,), {"id": run, "if_exists": "error"}
            ),
            "send": lambda: Call(method, run, (run, value), {"key": f"{self._name}-{self._count}"}),
            "wait": lambda: Call(method, run, (run, timeout), {}),
            "wait_until": lambda: Call(method, run, (run, _has_results, timeout), {}),
            "result": lambda: Call(method, run, (run, timeout), {}),
            "resume": lambda: Call(method, run, (run,), {"workflow": workflow}),
            "stop": lambda: Call(method, run, (run,), {"grace": self._grace(run)}),
            "set_policies": lambda: Call(method, run, (run, policies), {"mode": "merge"}),
            "preview": lambda: Call(method, run, (run, policies), {"mode": "merge"}),
        }
        if method in ("runs", "count", "resume_all"):
            return Call(method, None, (), {})
        return calls.get(method, lambda: Call(method, run, (run,), {}))()

    def _grace(self, run: str) -> float:
        return self._dice.choice((*SHORT, LONG)) if run.startswith("g") else LONG


_SORTS = {
    "delete": tuple(run for run in RUNS if run.startswith("d")),
    "cancel": tuple(run for run in RUNS if run.startswith("c")),
    "finish": tuple(run for run in RUNS if run.startswith("f")),
}
"""The runs that a method is about, if not all."""


def _has_results(run: Run) -> bool:
    return bool(run.values("third"))


def print_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Print where *tasks* wait, for a case that hangs."""
    told = sys.__stderr__
    if told is None:
        return
    for task in tasks:
        told.write(f"{task!r}\n")
        inner: Any = task.get_coro()
        while inner is not None and (frame := getattr(inner, "cr_frame", None)) is not None:
            told.write(f"    {frame.f_code.co_qualname}, line {frame.f_lineno}\n")
            inner = inner.cr_await


# -- whether it was true -------------------------------------------------------------------------


async def examine(path: Path, ledger: Ledger, workflow: Workflow) -> list[str]:
    """Return what is wrong with what a closed runner has left in the file at *path*."""
    problems = list(ledger.problems)
    async with SQLiteStore(path) as store:
        records = await store.list(limit=1_000)
        problems += [f"{each.id} is owned by {each.owner}" for each in records if each.owner is not None]
        for record in records:
            try:
                log = await _read(store, record.id, workflow)
            except errors.WeftError as error:
                problems.append(f"{record.id}: {type(error).__name__}: {error}")
            else:
                left = [decode_message(each.body) for each in await store.messages([record.id])]
                problems += [f"{record.id}: {each}" for each in _untrue(record.id, log, left, ledger)]
        found = {each.id for each in records}
        problems += [f"{run} was started, and is not stored" for run in sorted(ledger.begun - found) if run[0] != "d"]
    if not problems:
        problems += await _brought_to_an_end(path, workflow)
    for (run, _), count in sorted(ledger.executions.items()):
        if count > 1 and run[0] in "acf":
            problems.append(f"{run}: a step was executed {count} times")
    return [*problems, *(each for each in ledger.problems if each not in problems)]


async def _read(store: SQLiteStore, run: str, workflow: Workflow) -> list[AnyEvent]:
    """Return a stored log, after checking its hash chain; nothing is executed."""
    loaded = await store.load_since(run, 0)
    bodies = [segment.body for segment in loaded.segments]
    wanted = references(bodies)
    definitions = await store.load_definitions(wanted.definitions)
    facts = await store.load_facts(run, wanted.facts)
    verify(bodies, facts=facts, definitions=definitions, head=loaded.record.chain, position=loaded.record.head)
    return (await recover(store, loaded, workflow=workflow, goes_on=False)).run.log()


def _untrue(run: str, stored: list[AnyEvent], inbox: list[AnyEvent], ledger: Ledger) -> Iterator[str]:
    """Yield what a log, with what is left in the inbox of the run, says otherwise than callers were told."""
    log = [*stored, *inbox]
    left = Counter(event.key for event in inbox if isinstance(event, InputReceived))
    keys = Counter(event.key for event in log if isinstance(event, InputReceived) and event.key is not None)
    # What comes through the inbox of a run that closes meanwhile is too late, and its sender is gone.
    is_closed = any(isinstance(event, RunCancelled | RunFinished) or getattr(event, "last", False) for event in log)
    if run[0] != "d" and not is_closed:
        for key in sorted(ledger.taken[run] - keys.keys()):
            yield f"the input {key} was acknowledged and is in no log"
    for key, count in keys.items():
        if count > 1 + left[key]:  # what is in the inbox as well is not taken in again
            yield f"the input {key} is in the log {count} times"
    if run in ledger.cancelled and not any(isinstance(event, RunCancelled) for event in log):
        yield "it is said to be cancelled and is not"
    if run in ledger.finished and not any(
        isinstance(event, RunFinished) or getattr(event, "last", False) for event in log
    ):
        yield "it was told to finish, and its log does not say so"


_ENDS = defaultdict(lambda: {"idle"}, c={"idle", "cancelled"}, f={"idle", "completed", "failed"})
"""By the first letter of a run: the statuses that it may have in the end."""


async def _brought_to_an_end(path: Path, workflow: Workflow) -> list[str]:
    """Resume all that is left in another runner; return what does not come to its end."""
    problems: list[str] = []
    async with AsyncRunner(SQLiteStore(path), grace=LONG) as runner:
        runner.register(workflow)
        await runner.resume_all()
        for run in [each.id for each in await runner.runs(limit=1_000)]:
            try:
                await runner.resume(run)
                await runner.wait(run, timeout=DEADLINE)
            except errors.WeftError as error:
                problems.append(f"{run} does not come to its end: {type(error).__name__}: {error}")
    async with SQLiteStore(path) as store:
        problems += [
            f"{record.id} is left {record.status}, owned by {record.owner}"
            for record in await store.list(limit=1_000)
            if record.owner is not None or record.status not in _ENDS[record.id[0]]
        ]
    return problems
