"""
A program to be killed: its steps write rows in the transactions in which their completion is stored.

    python transacting.py runs.db                  # to the end
    python transacting.py runs.db appended 2       # kills itself when it comes to that point for the second time
    python transacting.py postgresql://… schema appended 2

Whether the run is there already is found out by starting it: the same call starts and resumes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from weft import Runner, Workflow, current, each, reduce, step, transaction
from weft.runner.execution import transactions
from weft.runner.execution.transactions import AttemptTransaction
from weft.stores import PostgresStore, SQLiteStore
from weft.stores.postgres.appending import Appender as PostgresAppender
from weft.stores.sqlite.appending import Appender as SQLiteAppender

POINTS = ("beginning", "begun", "written", "returned", "checked", "folded", "appended", "committed", "told")
TRANSACTIONAL = ("book", "pack", "line")
FLOW, INPUT, EXPECTED = "shop", 3, 1 + 1 + 3

left: dict[str, int] = {}


def reach(point: str) -> None:
    """Die here, if it is time."""
    if point in left:
        left[point] -= 1
        if not left[point]:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal is on its way


def row() -> tuple[str, str]:
    """Return what a step writes: its name, and a key that is the same at every attempt."""
    return current().component, current().idempotency_key


@step
def book(count: int, tx: Any = transaction()) -> int:
    write(tx)
    reach("written")
    return count


@step
async def pack(count: int, tx: Any = transaction()) -> list[int]:
    if isinstance(STORE, SQLiteStore):
        write(tx)
    else:
        await tx.execute("insert into shop_rows values ($1, $2)", *row())
    reach("written")
    return list(range(count))


@step
def line(number: int, tx: Any = transaction()) -> int:
    write(tx)
    reach("written")
    return number


def write(tx: Any) -> None:
    """Write the row of a plain function."""
    if isinstance(STORE, SQLiteStore):
        tx.execute("insert into shop_rows values (?, ?)", row())
    else:
        tx.execute("insert into shop_rows values ($1, $2)", *row())


shop = Workflow(FLOW, book >> pack >> each(line) >> reduce(lambda so_far, x: so_far + x, init=0, name="total"))
STORE: SQLiteStore | PostgresStore


def around(kind: Any, name: str, before: str, after: str) -> None:
    """Reach two points before and after a coroutine method is called."""
    method = getattr(kind, name)

    async def wrapped(*args: Any) -> Any:
        reach(before)
        answer = await method(*args)
        reach(after)
        return answer

    setattr(kind, name, wrapped)


def watch() -> None:
    """Let this process come to the points."""
    around(AttemptTransaction, "_begin", "beginning", "begun")
    around(AttemptTransaction, "check", "returned", "checked")
    around(AttemptTransaction, "commit", "folded", "committed")
    around(PostgresAppender, "append_within", "", "appended")
    within, told = SQLiteAppender.append_within, transactions._told

    def appended(*args: Any) -> Any:
        answer = within(*args)
        reach("appended")
        return answer

    def tell(*args: Any) -> None:
        told(*args)
        reach("told")

    SQLiteAppender.append_within, transactions._told = appended, tell  # type: ignore[method-assign]


def main(*arguments: str) -> None:
    """Run to the end, or to a point."""
    global STORE  # noqa: PLW0603 - the steps of a program that does one thing
    where, *more = arguments
    STORE = PostgresStore(where, schema=more.pop(0)) if "://" in where else SQLiteStore(where)
    if more:
        left[more[0]] = int(more[1])
        watch()
    with Runner(STORE) as runner:
        sys.stdout.write(f"{runner.start(shop, INPUT, id='r').result(60)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
