"""
Starts many runs: a slice at a time, and the first events of all runs of a slice are one commit.  Slices grow while all
runs of the runner are those that are being started, and are small again as soon as there are others.

    inputs, ids ──checked──► slices ──begin──► undecided ──one commit──► here
                                │                  │
                                │                  └── it exists ──┐
                                └── it is here, or locked ─────────┴──► by :meth:`RunCreator.start`

All inputs are checked before the first run is started, so that a list with an invalid input starts nothing.  A slice
needs one task, future and waiter instead of one for each run: its last run is waited for first, and by then the store
has answered for nearly all of the others.

Invariants: those of the registry.  The runs of a slice are locked, until the store has answered for them, by a task
that outlives its caller: if the caller is cancelled, the present slice is still started, and later ones are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from weft.core.workflow import Workflow
from weft.errors import InvalidArgument, InvalidOption, RunExists, UniqueKeyTaken
from weft.log import Encoded, encode_once, needs_encoding
from weft.runner.durability.ownership import Ownership
from weft.runner.execution.worker import Worker
from weft.runner.option_checks import check_text
from weft.runner.options import IfExists, RunOptions, StartRequest
from weft.runner.registry.creation import RunCreator
from weft.runner.registry.keyed_lock import HeldLock
from weft.runner.registry.registry import RunRegistry
from weft.runner.slices import pause
from weft.runner.waiting.waiters import Waiters

AT_ONCE: Final = 64
"""
How many runs are started, in one commit, before the other runs continue.

The runs of about five slices are active at once if each has five steps, and a small run beside them shares its commits.
With twice as many it took twice as long.
"""
MOST_AT_ONCE: Final = 256
"""The same where there are no other runs that could wait; a commit for each 64 costs 12 % more CPU on SQLite."""
_CHECKED: Final = 1024
"""How many inputs are looked at in one slice."""
_BYTES: Final = 128
"""How many bytes are encoded in about the time that it takes to look at an input."""
_THERE: Final = (RunExists, UniqueKeyTaken)
"""The errors that say that there is a run in place of a new one."""
_NAMED: Final = 5
"""How many runs that could not be started are named."""


class NewRun(msgspec.Struct, frozen=True, eq=False):
    """A run to be started: its id, its input, the input as bytes if it was encoded in advance, and its unique key."""

    id: str
    value: Any
    encoded: Encoded | None = None
    unique: str | None = None


def checked_inputs(inputs: Iterable[Any]) -> Iterable[Any]:
    """
    Return *inputs*, if there can be several of them.

    Raises:
        InvalidArgument: it is a single thing.
    """
    if isinstance(inputs, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        return inputs
    raise InvalidArgument(f"start_many() takes a list of inputs, got {inputs!r:.80}; start() starts one run")


async def new_runs(
    inputs: Iterable[Any], ids: Iterable[str] | None, unique: Iterable[str] | None = None
) -> list[NewRun]:
    """
    Return a run for each of *inputs*, with the id at the same place in *ids*, or a unique one if there are no *ids*.

    Its unique key is at the same place in *unique*.

    Raises:
        InvalidOption: there is not one id for each input, an id occurs twice, or one object is given as several
            different inputs.
        UnencodableValue: an input could not be stored; the error says which.
    """
    names = None if ids is None else _names(ids)
    found: list[NewRun] = []
    seen: dict[int, tuple[int, bytes]] = {}
    weight = 0
    for index, value in enumerate(checked_inputs(inputs)):
        encoded = None
        if needs_encoding(value):
            encoded = await _encoded(index, value)
            weight += len(encoded.data) // _BYTES
            first, data = seen.setdefault(id(value), (index, encoded.data))  # all of them are kept, so ids are unique
            if data != encoded.data:
                raise InvalidOption(
                    f"inputs[{index}] is the same object as inputs[{first}], and was changed meanwhile; all inputs are "
                    "read before the first run starts, so make a new object for each"
                )
        if names is None:
            found.append(NewRun(uuid4().hex, value, encoded))
        elif index < len(names):
            found.append(NewRun(names[index], value, encoded))
        else:
            raise InvalidOption(f"ids={_short(names)}: there are more inputs than {len(names):,}; use one id for each")
        weight += 1
        if weight >= _CHECKED:
            weight = 0
            await pause()
    if names is not None and len(names) > len(found):
        raise InvalidOption(f"ids={_short(names)}: {len(names):,} for {len(found):,} inputs; use one id for each")
    return found if unique is None else _with_keys(found, unique)


def _with_keys(runs: list[NewRun], unique: Iterable[str]) -> list[NewRun]:
    """Return *runs* with their unique keys."""
    if isinstance(unique, str):
        raise InvalidOption(f"unique={unique!r}: use a list of keys, one for each input")
    keys = list(unique)
    if len(keys) != len(runs):
        raise InvalidOption(f"unique={_short(keys)}: {len(keys):,} for {len(runs):,} inputs; use one key for each")
    for index, key in enumerate(keys):
        check_text(f"unique[{index}]", key)
    return [replace(run, unique=key) for run, key in zip(runs, keys, strict=True)]


def _names(ids: Iterable[str]) -> list[str]:
    if isinstance(ids, str):
        raise InvalidOption(f"ids={ids!r}: use a list of names, one for each input")
    names, seen = list(ids), set[str]()
    for index, name in enumerate(names):
        check_text(f"ids[{index}]", name)
        if name in seen:
            raise InvalidOption(f"ids[{index}]={name!r}: this id is there twice; use one for each input")
        seen.add(name)
    return names


async def _encoded(index: int, value: Any) -> Encoded:
    slices = encode_once(value, f"inputs[{index}]")
    while True:
        try:
            next(slices)
        except StopIteration as end:
            found: Encoded = end.value
            return found
        await pause()


class _Undecided(msgspec.Struct, frozen=True, eq=False):
    """A run whose first events are being written."""

    new: NewRun
    worker: Worker
    position: int
    lock: HeldLock


class BulkStart:
    """Starts many runs of one workflow in a registry."""

    def __init__(self, registry: RunRegistry, creator: RunCreator, waiters: Waiters, ownership: Ownership) -> None:
        self._registry, self._creator, self._waiters, self._ownership = registry, creator, waiters, ownership

    async def start(
        self,
        runs: Sequence[NewRun],
        workflow: Workflow,
        options: RunOptions,
        request: StartRequest,
        if_exists: IfExists = "same",
    ) -> tuple[dict[str, Worker], dict[str, str]]:
        """
        Start each of *runs* as :meth:`RunCreator.start` does, and wait until the first events of all are stored.

        Return their workers, by run; and, by run that was not started since another one has its unique key, that one.

        If a run cannot be started, the others still are: the first such error is raised when all have been tried, with
        a note that names the runs that could not be started.
        """
        failed: dict[str, Exception] = {}
        workers: dict[str, Worker] = {}
        holders: dict[str, str] = {}
        if request.policies is not None:
            request = replace(request, policies=tuple(request.policies))  # each run reads them
        begun, size = 0, AT_ONCE
        while begun < len(runs):
            part = runs[begun : begun + size]
            begun += size
            undecided, known = self._begin(part, workflow, options, request)
            workers |= {each.new.id: each.worker for each in undecided}
            refused = await self._registry.shielded.finish(self._decide(undecided))
            known += [new for new in part if isinstance(refused.get(new.id), _THERE)]
            failed |= {run: error for run, error in refused.items() if not isinstance(error, _THERE)}
            if known:
                starts = (
                    self._creator.start_unique(
                        new.id, workflow, options, replace(request, input=new.value, unique=new.unique), if_exists
                    )
                    for new in known
                )
                tried = await asyncio.gather(*starts, return_exceptions=True)
                for new, answer in zip(known, tried, strict=True):
                    if isinstance(answer, Exception):
                        failed[new.id] = answer
                        continue
                    if isinstance(answer, BaseException):
                        raise answer
                    run, worker = answer
                    if worker is not None:
                        workers[run] = worker
                    if worker is None or run != new.id:  # the worker that was begun here is dropped
                        workers.pop(new.id, None)
                    if run != new.id:
                        holders[new.id] = run
            size = min(2 * size, MOST_AT_ONCE) if self._registry.has_only(workers) else AT_ONCE
        for new in runs if failed else ():
            if new.id in failed:
                _add_note(failed[new.id], [each.id for each in runs if each.id in failed], len(runs))
                raise failed[new.id]
        return workers, holders

    def _begin(
        self, runs: Sequence[NewRun], workflow: Workflow, options: RunOptions, request: StartRequest
    ) -> tuple[list[_Undecided], list[NewRun]]:
        """Hand the first events of *runs* to the journal; return these runs, and those that are here or locked."""
        registry = self._registry
        undecided: list[_Undecided] = []
        known: list[NewRun] = []
        for new in runs:
            lock = None if new.id in registry else registry.try_lock(new.id)
            if lock is None:
                known.append(new)
                continue
            try:
                worker, position = self._creator.begin(
                    new.id,
                    workflow,
                    options,
                    replace(request, input=new.value, encoded=new.encoded, unique=new.unique),
                )
            except BaseException:
                lock.release()
                if undecided:
                    registry.shielded.start(self._decide(undecided))
                raise
            undecided.append(_Undecided(new, worker, position, lock))
        return undecided, known

    async def _decide(self, undecided: list[_Undecided]) -> dict[str, Exception]:
        """Wait until the store has answered for all of *undecided*, and unlock them; return errors by run."""
        registry, refused = self._registry, dict[str, Exception]()
        try:
            while undecided:
                last = undecided[-1]
                try:
                    await self._waiters.durable(last.worker, last.position)
                except Exception as error:  # noqa: BLE001 - one that is refused must not keep the others from it
                    refused[last.new.id] = error
                    registry.drop(last.worker)
                    if last.worker.lost is not None and not isinstance(error, _THERE):  # the store may have it
                        last.lock.release_after(registry.shielded.start(self._ownership.release([last.new.id])))
                    else:
                        last.lock.release()
                else:
                    last.lock.release()
                undecided.pop()
        except asyncio.CancelledError:  # by code that cancels all that is in the loop: another task goes on with it
            registry.shielded.start(self._decide(undecided))
            raise
        return refused


def _short(names: Sequence[str]) -> str:
    return repr([*names]) if len(names) <= _NAMED else f"[{', '.join(map(repr, names[:_NAMED]))}, ...]"


def _add_note(error: Exception, failed: Sequence[str], count: int) -> None:
    error.add_note(f"{len(failed):,} of {count:,} runs could not be started: {_short(failed)}; the others are here")
