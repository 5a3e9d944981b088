"""
Rebuilds a stored run from its log: check the chain, decode, fold.

No function of the user is called.  Work that has completed in the log is never executed again; work that was in flight
is ready again, and is started like any other.  A long log is decoded and folded in slices, between which other work of
the event loop runs (ADR 18).  The run is in no table until the last slice, so it can be abandoned after any slice.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from weft.core.fold.fold import fold
from weft.core.fold.memory import PAGE
from weft.core.functions.unresolved import Unresolved, refused
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import CorruptLog, UnknownClass
from weft.log import Decoder, chain
from weft.log.hash_chain import GENESIS, References, may_refer, survey
from weft.policy.matching import Within
from weft.ports.store import LoadedRun, LogStore, RunRecord
from weft.runner.durability.rehydration import Sleeping, referred
from weft.runner.slices import Pace, pause

_HASHED: Final = 4096
"""How many bytes are hashed in about the time that it takes to fold an event."""


class Recovered(msgspec.Struct, frozen=True, eq=False):
    """A run as it was when its last event was stored."""

    run: Run
    record: RunRecord
    unknown: Mapping[str, None] = {}
    """The classes of values that are not known here."""
    sleeping: Sleeping | None = None
    """Wakes it, if it was restored without its values."""

    def check(self, workflow: Workflow | None = None) -> None:
        """
        Check that this process can continue the run; *workflow* is what the caller has passed.

        Raises:
            UnresolvedFunction, UnknownClass, MissingContext: as :func:`recover`.
        """
        run = self.run
        for component, (function, reason) in run.workflow.missing.items():
            raise refused(component, function, reason, run=run.id, given=_given(workflow, component))
        _check_policies(run)
        if self.unknown and _reads_on(run):
            raise UnknownClass(self.record.id, self.unknown)
        run.has_transactions = True  # it was started where there are some; elsewhere the step says so
        run.check_context()


async def recover(
    store: LogStore,
    loaded: LoadedRun,
    *,
    workflow: Workflow | None = None,
    context: Mapping[str, Any] | None = None,
    strict: bool = False,
    goes_on: bool = True,
    pause: Callable[[], Awaitable[object]] = pause,
    decoder: Decoder | None = None,
) -> Recovered:
    """
    Rebuild the run that was *loaded* from *store*.

    Args:
        workflow: the live definition: functions are taken from it where they cannot be found elsewhere.
        context: what components read with ``context(key)``; it is never stored.
        strict: refuse code that has changed since the run was written.
        goes_on: whether anything in it will be executed; if not, neither its functions nor its context are needed.
        pause: called after every few hundred events, so that a long log does not hold the loop; what it raises ends
            the recovery, and nothing is left of it.
        decoder: one for the same *workflow* and *strict* that has read other runs, and knows what they share.

    Raises:
        CorruptLog: what was stored is not a log.
        ChangedCode: *strict*, and some code has changed.
        UnresolvedFunction: this process has not offered a function, and was not handed the workflow.
        UnknownClass: it would continue with values whose class is not known here.
        MissingContext: a required context key was not given.
    """
    bodies = [segment.body for segment in loaded.segments]
    pace = Pace(pause)
    await _check_chain(loaded, bodies, pace)
    if decoder is None:
        decoder = Decoder(workflow=workflow, strict=strict)
    unknown: dict[str, None] = {}
    try:
        definitions, facts = await _referred(store, loaded, pace, decoder)
        batches = decoder.batches(bodies, definitions=definitions, facts=facts, unknown=unknown)
        first = next(batches)
        run = Run.from_log(first[:1], context=context)
        run.memory.page = PAGE
        for events in itertools.chain([first[1:]], batches):
            fold(run.memory, events)
            run.memory.newly_ready.clear()
            await pace.keep(len(events))
    except CorruptLog as error:
        raise error.of(loaded.record.id) from error
    recovered = Recovered(run, loaded.record, unknown)
    if goes_on:
        recovered.check(workflow)
    return recovered


def _given(workflow: Workflow | None, component: str) -> str:
    """Return why *workflow*, which the caller passed, does not have the functions of *component*."""
    if workflow is None:
        return ""
    wrong = "is another one" if component in workflow.components else "has no such component"
    return f"the workflow {workflow.name!r} that was handed over {wrong}"


def _check_policies(run: Run) -> None:
    """
    Check that the functions of policies that were set while *run* was going on are offered here.

    A function without a name cannot be offered: calling it raises, and until then policies can be set again.
    """
    memory = run.memory
    rules = [*(memory.rules or ()), *((None, policy) for policy in (memory.retried or {}).values())]
    for matcher, policy in rules:
        asked: Any = matcher
        while isinstance(asked, Within):
            asked = asked.matcher
        for held in (asked, *(getattr(policy, name) for name in policy.__struct_fields__)):
            call = held
            while isinstance(call, functools.partial):
                call = call.func
            if isinstance(call, Unresolved) and not dict(call.reference).get("local"):
                raise refused(call.component, call.label, call.reason, run=run.id)


async def _check_chain(loaded: LoadedRun, bodies: list[bytes], pace: Pace) -> None:
    """
    Follow the hashes of *loaded* to its head.

    Raises:
        CorruptLog: they do not lead there, or not by way of what is known.
    """
    link, is_known = GENESIS, loaded.known == GENESIS
    for body in bodies:
        link = chain(link, body)
        is_known = is_known or link == loaded.known
        await pace.keep(1 + len(body) // _HASHED)
    if link != loaded.record.chain or not is_known:
        raise CorruptLog(
            f"the log of run {loaded.record.id!r} is not what was written: its hashes do not lead to its head, "
            "or not as far as they did; verify() tells where, and a copy of the store may still have it"
        )


async def referred_by(
    store: LogStore, loaded: LoadedRun, pause: Callable[[], Awaitable[object]]
) -> tuple[Mapping[bytes, bytes], Mapping[bytes, bytes]]:
    """Return the definitions and the large values that the segments of a run refer to."""
    return await _referred(store, loaded, Pace(pause))


async def _referred(
    store: LogStore, loaded: LoadedRun, pace: Pace, decoder: Decoder | None = None
) -> tuple[Mapping[bytes, bytes], Mapping[bytes, bytes]]:
    """Return the definitions and the large values that the segments refer to; what *decoder* knows is not read."""
    wanted_definitions: set[bytes] = set()
    wanted_facts: set[bytes] = set()
    for segment in loaded.segments:
        if not may_refer(segment.body):
            await pace.keep(1 + len(segment.body) // _HASHED)
            continue
        for count, found in survey([segment.body], segment.first):
            wanted_definitions |= found.definitions
            wanted_facts |= found.facts
            await pace.keep(count)
    if decoder is not None and not wanted_facts and decoder.knows(wanted_definitions):  # as that of many runs
        return dict.fromkeys(wanted_definitions, b""), {}
    wanted = References(frozenset(wanted_definitions), frozenset(wanted_facts))
    return await referred(store, loaded.record.id, wanted)


def _reads_on(run: Run) -> bool:
    """Whether something may still read values that were made before: it is pending, or keeps or reads state."""
    memory = run.memory
    return bool(memory.ready or memory.blocked or memory.letters or memory.produced or memory.partitions)
