"""A step that locks a row in the database of its run, and stands still in the first process that runs it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from weft import Workflow, registry, step, transaction

LOCK = "insert into paid (id, n) values (1, 1) on conflict (id) do update set n = paid.n + 1"


@step
def pay(x: int, tx: Any = transaction()) -> int:
    tx.execute(LOCK)
    mark = Path(os.environ["FLEET_NOTES"])
    if not mark.exists():
        mark.write_text(str(os.getpid()), encoding="utf-8")
        time.sleep(60)  # it is stopped here
    return x + 1


payment = Workflow("payment", pay)
registry.add(payment)
