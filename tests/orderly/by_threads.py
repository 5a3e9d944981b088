"""
Real threads that use one blocking runner at once, and close it before all of them are done.
"""

from __future__ import annotations

import asyncio
import faulthandler
import itertools
import sys
import threading
import time
from pathlib import Path

from traffic import DEADLINE, LONG, Call, Caller, Ledger, examine, orders, print_tasks

from weft import Runner
from weft.stores import SQLiteStore

CALLERS = 50


def problems_of_threads(seed: int, path: Path, *, calls: int = 12) -> tuple[list[str], Ledger]:
    """Return what is wrong after 50 threads have made *calls* each, drawn from *seed*; and what happened."""
    ledger = Ledger()
    workflow = orders(ledger)
    runner = Runner(SQLiteStore(path, synchronous="normal"), grace=LONG).open()
    runner.register(workflow)
    made, enough = itertools.count(1), threading.Event()

    def use(caller: Caller) -> None:
        for _ in range(calls):
            if next(made) > 0.9 * CALLERS * calls:
                enough.set()
            call = caller.next()
            try:
                call.of(runner)
            except BaseException as error:  # noqa: BLE001 - the ledger says whether it may
                ledger.raised(call, error)
            else:
                ledger.returned(call)
                caller.done(call)

    def close() -> None:
        enough.wait(DEADLINE)
        ledger.is_closing = True
        try:
            runner.close()
        except BaseException as error:  # noqa: BLE001 - as above
            ledger.raised(Call("close", None, (), {}), error)

    threads = [
        threading.Thread(target=use, args=(Caller(seed, f"t{number}", workflow),), name=f"t{number}", daemon=True)
        for number in range(CALLERS)
    ]
    threads += [threading.Thread(target=close, name=f"closing {number}", daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + DEADLINE
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    hanging = [thread.name for thread in threads if thread.is_alive()]
    if hanging:
        faulthandler.dump_traceback(sys.__stderr__)
        if (loop := runner._loop) is not None:
            print_tasks(asyncio.all_tasks(loop))
        return [*ledger.problems, f"these hang: {', '.join(hanging)}"], ledger
    return asyncio.run(asyncio.wait_for(examine(path, ledger, workflow), DEADLINE)), ledger
