"""
Steps that any worker of a queue may run: the part of the store that sends, claims and finishes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from weft.ports.tasks import ClaimedTask, SentTask, Task, TaskNews
from weft.stores.postgres import tasks
from weft.stores.postgres.store_base import StoreBase
from weft.typing import RunId


class TaskPart(StoreBase):
    """The steps in a database that workers of other processes may run."""

    async def send_tasks(self, sent: Sequence[Task], values: Mapping[tuple[RunId, bytes], bytes]) -> Sequence[SentTask]:
        """Offer steps to the workers of their queues; return those that are there now."""
        owner = await self._usable().lease.key()
        there = await self._ask(tasks.send, owner, list(sent), values)
        queues = {(each.run, each.runnable): each.queue for each in sent}
        waiting = {queues[each.run, each.runnable] for each in there if not each.has_news}
        self._usable().hints.tell((self._statements.tasks, queue) for queue in waiting)
        return there

    async def take_outcomes(self, keys: Collection[int], *, limit: int = 1000) -> Sequence[TaskNews]:
        """Return which of these steps run, have ended, or are not there any more."""
        owner = await self._usable().lease.key()
        return await self._ask(tasks.news, owner, list(keys), limit)

    async def drop_tasks(self, keys: Collection[int]) -> None:
        """Remove steps that this store has sent, and notify the workers that run them."""
        owner = self._usable().lease.known
        if keys and owner is not None:
            await self._ask(tasks.drop, owner, list(keys))

    async def claim_tasks(
        self,
        limit: int,
        *,
        queues: Collection[str],
        workflows: Collection[tuple[str, str]],
        deaths: int,
        outcomes: Sequence[tuple[int, int, bytes]] = (),
    ) -> Sequence[ClaimedTask]:
        """Store *outcomes*, and claim steps that wait, or whose worker has died fewer than *deaths* times."""
        owner, asked = await self._usable().lease.key(), list(dict.fromkeys(queues))
        claims, told = await self._ask(tasks.claim, limit, asked, sorted(workflows), owner, deaths, list(outcomes))
        self._tell_owners(told)
        return claims

    async def finish_tasks(self, outcomes: Sequence[tuple[int, int, bytes]]) -> None:
        """Store outcomes, each by key and fence; one whose claim is over is dropped."""
        self._tell_owners(await self._ask(tasks.finish, list(outcomes)))

    async def report_tasks(self, reports: Sequence[tuple[int, int, bytes]]) -> None:
        """Store how far claimed steps have come, each by key and fence; one whose claim is over is dropped."""
        self._tell_owners(await self._ask(tasks.report, list(reports)))

    def _tell_owners(self, told: Sequence[tasks.Told]) -> None:
        """Notify the owners of steps that there is news of; the one in this process at once."""
        opened = self._usable()
        for channel, keys in told:
            if channel == opened.channel:
                opened.hints.notify(channel, tasks.answers(keys))
            else:
                opened.hints.tell([(channel, tasks.answers(keys))])

    async def put_back_tasks(self, claims: Collection[tuple[int, int]]) -> None:
        """Offer claimed steps again."""
        await self._ask(tasks.put_back, list(claims))

    async def check_tasks(self, claims: Collection[tuple[int, int]]) -> Sequence[int]:
        """Return the keys of claimed steps that are not wanted any more; offer those again that are not in *claims*."""
        owner = self._usable().lease.known
        return [] if owner is None else await self._ask(tasks.check, owner, list(claims))

    async def task_values(self, asked: Collection[tuple[RunId, bytes]]) -> Mapping[tuple[RunId, bytes], bytes]:
        """Return large values of steps, by run and hash."""
        return await self._ask(tasks.values, list(asked))

    async def sweep_tasks(self, after: float) -> int:
        """Remove steps that no run waits for, or that were left behind for *seconds*; return how many."""
        return await self._ask(tasks.sweep, float(after))

    async def watch_tasks(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* soon after a step was offered."""
        return await self._usable().hints.listen(self._statements.tasks, lambda _: notify())

    async def watch_answers(self, notify: Callable[[Collection[int] | None], object]) -> Callable[[], None]:
        """Call *notify* with the keys of steps of this store that were claimed or have ended; with None if any may."""
        opened = self._usable()

        def hear(payload: str | None) -> None:
            keys = tasks.answered(payload)
            if keys is None or keys:
                notify(keys)

        return await opened.hints.listen(opened.channel, hear)

    async def watch_dropped(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* soon after a step that this store has claimed was removed."""
        opened = self._usable()
        return await opened.hints.listen(
            opened.channel, lambda told: notify() if told is None or told == tasks.DROPPED else None
        )
