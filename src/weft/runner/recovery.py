"""
A stored run, brought back: load, decode, fold, and find out what was under way.

Nothing of the user's is called.  What has completed in the log is never executed again; what was in flight is
ready, and is started like anything else.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from weft.core.events import AnyEvent
from weft.core.run import Run
from weft.core.unresolved import Unresolved
from weft.core.workflow import Workflow
from weft.errors import CorruptLog, MissingContent, UnknownClass, UnresolvedFunction
from weft.log import Decoder, chain, references
from weft.log.chain import GENESIS
from weft.policy.matching import Within
from weft.ports.store import FactStore, LoadedRun, LogStore, RunRecord


class Recovered(msgspec.Struct, frozen=True, eq=False):
    """A run as it was when its last event was stored."""

    run: Run
    record: RunRecord


async def recover(
    store: LogStore,
    loaded: LoadedRun,
    *,
    workflow: Workflow | None = None,
    context: Mapping[str, Any] | None = None,
    strict: bool = False,
    goes_on: bool = True,
) -> Recovered:
    """
    Rebuild the run that was *loaded* from *store*.

    Args:
        workflow: the live definition: functions are taken from it where they cannot be found elsewhere.
        context: what components read with ``context(key)``; it is never stored.
        strict: refuse code that has changed since the run was written.
        goes_on: whether anything of it will be executed; else neither its functions nor its context are needed.

    Raises:
        CorruptLog: what was stored is no log.
        ChangedCode: *strict*, and some code has changed.
        UnresolvedFunction: this process has not offered a function, and was not handed the workflow.
        UnknownClass: it would go on with values whose class is not known here.
        MissingContext: a required context key was not given.
    """
    bodies = [segment.body for segment in loaded.segments]
    links = [GENESIS]
    for body in bodies:
        links.append(chain(links[-1], body))
    if links[-1] != loaded.record.chain or loaded.known not in links:
        raise CorruptLog(
            f"the log of run {loaded.record.id!r} is not what was written: its hashes do not lead to its head, "
            "or not as far as they did; verify() tells where, and a copy of the store may still have it"
        )
    decoder = Decoder(workflow=workflow, strict=strict)
    try:
        events = await _events(store, loaded.record.id, bodies, decoder)
    except CorruptLog as error:
        raise error.of(loaded.record.id) from error
    run = Run.from_log(events, context=context)
    if not goes_on:
        return Recovered(run, loaded.record)
    for component, (function, reason) in run.workflow.missing.items():
        raise UnresolvedFunction(component, function, reason)
    _check_policies(run)
    if decoder.unknown and _reads_on(run):
        raise UnknownClass(loaded.record.id, decoder.unknown)
    run.check_context()
    return Recovered(run, loaded.record)


def _check_policies(run: Run) -> None:
    """
    See that the functions of policies that were set while *run* was going on are offered here.

    One without a name of its own cannot be: it says so when it is asked, and until then policies can be set again.
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
                raise UnresolvedFunction(call.component, call.label, call.reason)


async def _events(store: LogStore, run: str, bodies: list[bytes], decoder: Decoder) -> list[AnyEvent]:
    wanted = references(bodies)
    try:
        definitions = await store.load_definitions(wanted.definitions)
    except MissingContent as error:  # a definition is that of many runs, and here it is this one that needs it
        raise MissingContent("definition", error.hashes, run) from error
    facts: Mapping[bytes, bytes] = {}
    if isinstance(store, FactStore):
        facts = await store.load_facts(run, wanted.facts)
    return decoder.segments(bodies, definitions=definitions, facts=facts)


def _reads_on(run: Run) -> bool:
    """Whether something may still read values that were made before: it is pending, or keeps or reads state."""
    memory = run.memory
    return bool(memory.ready or memory.blocked or memory.letters or memory.produced or memory.partitions)
