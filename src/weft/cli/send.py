"""``weft send``: sends a run a further input."""

from __future__ import annotations

from weft.cli.options import AsJson, By, Key, RunId, Value, caller, parsed
from weft.cli.screen import Screen
from weft.cli.store_option import StoreOption
from weft.errors import RunClosed
from weft.ports.store import FINISHED


def send(
    run: RunId,
    value: Value,
    key: Key = None,
    store: StoreOption = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send a run that is open a further input."""
    from weft.cli.changing import leaving

    given = parsed(value, "VALUE")
    with leaving(Screen(), store, run, "the input", as_json=as_json) as (runner, source):
        found = source.read(run)
        if found.record.status not in FINISHED:  # else the runner refuses it
            memory = found.run().memory
            if memory.is_ending and (key is None or key not in (memory.keys or {})):
                raise RunClosed(run, status=found.record.status)
        runner.send(run, given, key=key, by=caller(by))
