"""
A worker on several databases: one :class:`FleetWorker` for each, in one process.

Each has its own lease, connections and retries, so a database that is down stops none of the others.  Together they
have as many active runs as one worker has.  See docs/adr/0054.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from weft.core.workflow import Workflow
from weft.errors import InvalidOption
from weft.fleet import decisions, health
from weft.fleet import registry as known_workflows
from weft.fleet.client import AsyncClient
from weft.fleet.worker import CONCURRENCY, FleetWorker
from weft.policy import Policy
from weft.ports.queue import QUEUE

_log = logging.getLogger("weft.fleet")

_HEALTH: Final = 1.0
"""Seconds between two writes of the health file."""


class ShardedWorker:
    """
    Claims and drives runs in the databases at *dsns*, which are all of a fleet or some of them.

    Args:
        concurrency: how many runs are active at once, in all databases together.
        listen_dsns: direct addresses of the same servers, in the same order, if *dsns* go through a pooler.
        options: those of :class:`FleetWorker`, for each of them.
    """

    def __init__(
        self,
        dsns: Sequence[str],
        workflows: Iterable[Workflow[Any, Any]] | None = None,
        *,
        queues: Collection[str] = (QUEUE,),
        concurrency: int = CONCURRENCY,
        schema: str = "public",
        listen_dsns: Sequence[str] | None = None,
        prepared: bool = True,
        health_file: Path | None = None,
        **options: Any,
    ) -> None:
        if listen_dsns is not None and len(listen_dsns) != len(dsns):
            raise InvalidOption(f"{len(dsns)} databases and {len(listen_dsns)} direct addresses: name one for each")
        workflows = None if workflows is None else list(workflows)
        self._client = AsyncClient(dsns, schema=schema, prepared=prepared)
        self._concurrency, self._health = concurrency, health_file
        self.workers: Mapping[str, FleetWorker] = {
            dsn: FleetWorker(
                dsn,
                workflows,
                queues=queues,
                concurrency=concurrency,
                schema=schema,
                listen_dsn=None if listen_dsns is None else listen_dsns[number],
                prepared=prepared,
                client=lambda: self._client,
                most=partial(self._most, dsn),
                **options,
            )
            for number, dsn in enumerate(dsns)
        }
        """By database."""
        self._limits = limits_of(known_workflows.workflows() if workflows is None else workflows)

    def _most(self, dsn: str) -> int:
        """Return how many runs of the database *dsn* may be active now."""
        others = sum(worker.active for each, worker in self.workers.items() if each != dsn)
        return decisions.most_of_one(self._concurrency, others, len(self.workers))

    def stop(self) -> None:
        """Tell all of them to stop; a second call abandons what is in flight."""
        for worker in self.workers.values():
            worker.stop()

    def drain(self) -> None:
        """Release all runs when nothing of them is in flight, and claim none until :meth:`resume`."""
        for worker in self.workers.values():
            worker.drain()

    def resume(self) -> None:
        """Claim again, after :meth:`drain`."""
        for worker in self.workers.values():
            worker.resume()

    async def run(self) -> None:
        """
        Work until :meth:`stop` is called.

        A database that cannot be used with these options, or that a newer Weft has migrated, is given up.

        Raises:
            StoreError: all of them were given up.
        """
        if self._limits and len(self.workers) > 1:
            _log.warning(
                "each of the %d databases has its own limits: what all of them let through together may be %d times "
                "what %s say",
                len(self.workers),
                len(self.workers),
                ", ".join(map(repr, self._limits)),
            )
        telling = asyncio.create_task(self._tell_health())
        try:
            ended = await asyncio.gather(*(self._keep(worker) for worker in self.workers.values()))
        finally:
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling
            await self._client.close()
            if self._health is not None:
                self._health.unlink(missing_ok=True)
        failed = [error for error in ended if error is not None]
        if len(failed) == len(self.workers):
            raise failed[0]

    async def _keep(self, worker: FleetWorker) -> Exception | None:
        """Let *worker* run to its end; return why it was given up, or None."""
        try:
            await worker.run()
        except Exception as error:  # noqa: BLE001 - the others go on
            _log.error("a database of %d is given up: %s", len(self.workers), error)
            return error
        return None

    def status(self) -> dict[str, Any]:
        """Return what it does, and what each of its workers does, as plain data."""
        shards: list[dict[str, Any]] = [
            {"store": worker.store_name, **worker.status()} for worker in self.workers.values()
        ]
        return {
            "state": next((each["state"] for each in shards if each["state"] == "working"), shards[0]["state"]),
            "ready": any(each["ready"] for each in shards),
            "at": time.time(),
            "pid": os.getpid(),
            "active": sum(each["active"] for each in shards),
            "held": sum(each["held"] for each in shards),
            "problem": "; ".join(each["problem"] for each in shards if each["problem"]),
            "shards": shards,
        }

    async def _tell_health(self) -> None:
        while self._health is not None:
            health.write(self._health, self.status())
            await asyncio.sleep(_HEALTH)


def limits_of(workflows: Iterable[Workflow[Any, Any]]) -> list[str]:
    """Return the names of the places and rates that the policies of *workflows* limit."""
    policies: Iterator[Policy] = (policy for each in workflows for _, policy in each.policies)
    found = (limit for policy in policies for limit in (policy.concurrency_limit, policy.rate_limit))
    return sorted({limit.name for limit in found if limit is not None})
