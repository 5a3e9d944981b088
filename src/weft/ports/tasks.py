"""
The port of steps that any worker of a fleet may run (ADR 53): rows that an owner sends and a worker claims.

    waiting ──claimed──► claimed ──its outcome──► done ──the append with what comes of it──► (no row)
       ▲                    │
       └── put back, or the lease of the worker is over

The *fence* of a row is raised with each claim.  Reports about an earlier claim are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from weft.typing import RunId


class Task(NamedTuple):
    """A step as its owner sends it."""

    run: RunId
    runnable: str
    """The id of the runnable: the same work has the same one in every process."""
    attempt: int
    epoch: int
    """The epoch in which its owner has the run."""
    queue: str
    priority: int
    workflow: str
    version: str
    body: bytes


class SentTask(NamedTuple):
    """A step that is there for the workers."""

    key: int
    run: RunId
    runnable: str
    has_news: bool
    """Whether it was there before, and a worker has claimed it, or it has ended."""


class TaskNews(NamedTuple):
    """The state of a step, as its owner learns it."""

    key: int
    state: Literal["claimed", "done"] | None
    """None: it is not there any more."""
    fence: int
    outcome: bytes | None
    """None of a step that is done: too many workers have died with it."""
    report: bytes | None = None
    """How far a step has come that is claimed, as it last reported."""


class ClaimedTask(NamedTuple):
    """A step that a worker has claimed."""

    key: int
    fence: int
    run: RunId
    workflow: str
    version: str
    body: bytes


@runtime_checkable
class TaskStore(Protocol):
    """A store that many workers share, and through which they hand each other steps."""

    async def send_tasks(self, sent: Sequence[Task], values: Mapping[tuple[RunId, bytes], bytes]) -> Sequence[SentTask]:
        """
        Offer steps to the workers of their queues, with the large *values* that they share, by run and hash.

        A step that is there in the same attempt is adopted.  One that belongs to a later epoch is not returned.
        """
        ...

    async def take_outcomes(self, keys: Collection[int], *, limit: int = 1000) -> Sequence[TaskNews]:
        """
        Return which of these steps have ended, those that ended first, first; which run; and which are not there.

        Args:
            limit: of how many steps that have ended the outcomes are returned, at most.
        """
        ...

    async def drop_tasks(self, keys: Collection[int]) -> None:
        """Remove steps that this store has sent, and notify the workers that run them."""
        ...

    async def claim_tasks(
        self,
        limit: int,
        *,
        queues: Collection[str],
        workflows: Collection[tuple[str, str]],
        deaths: int,
        outcomes: Sequence[tuple[int, int, bytes]] = (),
    ) -> Sequence[ClaimedTask]:
        """
        Claim at most *limit* steps of these *queues* and *workflows*, by name and version, most urgent first.

        A step whose worker has died is offered again; after *deaths* of them it is done, without an outcome.

        Args:
            outcomes: stored in the same transaction, as :meth:`finish_tasks` does.
        """
        ...

    async def finish_tasks(self, outcomes: Sequence[tuple[int, int, bytes]]) -> None:
        """Store outcomes, each by key and fence; one whose claim is over is dropped."""
        ...

    async def report_tasks(self, reports: Sequence[tuple[int, int, bytes]]) -> None:
        """Store how far claimed steps have come, each by key and fence; one whose claim is over is dropped."""
        ...

    async def put_back_tasks(self, claims: Collection[tuple[int, int]]) -> None:
        """Offer claimed steps again, by key and fence."""
        ...

    async def check_tasks(self, claims: Collection[tuple[int, int]]) -> Sequence[int]:
        """
        Return the keys of claimed steps that are not wanted any more.

        Steps that this store has claimed and that are not in *claims*, since the answer was lost, are offered again.
        """
        ...

    async def task_values(self, asked: Collection[tuple[RunId, bytes]]) -> Mapping[tuple[RunId, bytes], bytes]:
        """Return large values of steps, by run and hash."""
        ...

    async def sweep_tasks(self, after: float) -> int:
        """Remove steps whose run has finished, and those that were left behind *after* seconds; return how many."""
        ...

    async def watch_tasks(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* soon after a step was offered; return a function that ends this."""
        ...

    async def watch_answers(self, notify: Callable[[Collection[int] | None], object]) -> Callable[[], None]:
        """
        Call *notify* soon after there is news of steps of this store; return a function that ends this.

        It is called with their keys, or with None if any may be meant.
        """
        ...

    async def watch_dropped(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Call *notify* soon after a step that this store has claimed was removed; return a function that ends this."""
        ...
