"""
The checks of a long-lived run, and of those that it was continued from or forked to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from weft.core import events as ev
from weft.core.run.run import Run
from weft.runner import AsyncRunner
from weft.runner.durability.unsaved import CONTINUED
from weft.runner.registry.continuation import next_id
from weft.testing.simulation.long_run_client import LongRunClient, find
from weft.testing.simulation.long_run_workflow import ITEMS, content_of


async def examine(client: LongRunClient, runner: AsyncRunner) -> list[str]:
    """Return what is wrong with the run of *client*, and with those that it was continued from or forked to."""
    run = await (await runner.get(client.id)).load()
    return [*_states(client, run), *await _chain(client, runner), *await _forks(client, runner)]


def _states(client: LongRunClient, run: Run) -> Iterator[str]:
    if run.status != "completed":
        yield f"{run.id} is {run.status} in the end"
    for name in ("inputs", "woken", "spoken", "tried"):
        if sorted(run.state_of(name)) != client.sent:
            yield f"{name} are {run.state_of(name)}, and {len(client.sent)} inputs were sent"
    if sorted(run.state_of("looked")) != sorted(map(content_of, client.sent)):
        yield f"{run.state_of('looked')} is left of the large values of the inputs {client.sent}"
    taken = run.state_of("signals")
    if len({*taken}) != len(client.sent) or len(taken) != len(client.sent) or not {*taken} <= {*client.signals}:
        yield f"{taken} were taken of the signals {client.signals}, for {len(client.sent)} inputs"
    answers = run.state_of("answers")
    if len({*answers}) != len(client.sent) or len(answers) != len(client.sent):
        yield f"{answers} are the answers to {len(client.sent)} questions"
    if not client.sure <= {*answers} <= {*client.answers.values()}:
        yield f"{answers} are the answers; sent were {client.answers.values()}, and acknowledged {client.sure}"
    if "added" in run.workflow.components:
        added = run.state_of("added")
        if len({*added}) < len(added):
            yield f"what an upgrade has added was executed for {added}"


async def _chain(client: LongRunClient, runner: AsyncRunner) -> list[str]:
    """Return what is wrong with the logs and streams of the runs that were continued."""
    found: list[str] = []
    words: list[tuple[int, Any, str]] = []
    upgrades, name, is_whole = 0, "run", True
    while True:
        log = await runner.log(name)
        is_whole = is_whole and not isinstance(log[0], ev.LogTruncated)
        upgrades += sum(isinstance(event, ev.RunUpgraded) for event in log)
        items = [(item.offset, item.value, item.execution) async for item in runner.stream(name, "words")]
        if [offset for offset, *_ in items] != [*range(len(items))]:
            found.append(f"{name}: the items of its stream are at {[offset for offset, *_ in items]}")
        if client.read.get(name, []) != items:
            found.append(f"{name}: a reader has had {client.read.get(name)}, and its stream has {items}")
        if (seen := client.seen.get(name)) != log[-1].seq:
            found.append(f"{name}: a reader has had its events up to {seen}, and there are {log[-1].seq}")
        left = await runner.unread(name)
        if any(not isinstance(event, ev.RunFinished) for event in left):  # the store may have it twice
            found.append(f"{name}: {left} is left in its inbox")
        words += items
        if name == client.id:
            break
        name = next_id(name)
    if is_whole and upgrades != client.upgrades:
        found.append(f"it was upgraded {client.upgrades} times, and the logs have {upgrades}")
    return [*found, *_spoken(client.sent, words)]


def _spoken(sent: Sequence[int], words: Iterable[tuple[int, Any, str]]) -> Iterator[str]:
    """Yield what is wrong with the items of all streams."""
    written: dict[str, list[Any]] = {}
    for _, value, execution in words:
        written.setdefault(execution, []).append(tuple(value))
    for values in written.values():
        if values != [(values[0][0], number) for number in range(len(values))]:
            yield f"an execution has written {values}"
    complete = {values[0][0] for values in written.values() if len(values) == ITEMS}
    if missing := {*sent} - complete:
        yield f"no execution for the inputs {missing} has written all its items"


async def _forks(client: LongRunClient, runner: AsyncRunner) -> list[str]:
    """Return what is wrong with the forks, which may have been continued themselves."""
    found: list[str] = []
    for number in client.forks:
        name = f"fork {number}"
        while (record := await find(runner, name)).reason.startswith(CONTINUED):
            name = next_id(name)
        if record.status != "cancelled":
            found.append(f"{name} is {record.status} in the end")
    return found
