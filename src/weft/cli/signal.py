"""``weft signal``: sends a run a signal that it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.completion import signals
from weft.cli.options import AsJson, By, Key, RunId, Value, caller, parsed
from weft.cli.screen import Screen
from weft.cli.store_option import StoreOption
from weft.core.components.wait_for import WaitFor
from weft.errors import InvalidSignal, UnresolvedFunction
from weft.ports.store import FINISHED
from weft.views.json_schema import misfit

if TYPE_CHECKING:
    from weft.core.workflow import Workflow


def signal(
    run: RunId,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The name of the signal.", show_default=False, autocompletion=signals),
    ],
    value: Value = "null",
    key: Key = None,
    store: StoreOption = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send a run a signal, such as the answer that it waits for."""
    from weft.cli.changing import leaving

    given = parsed(value, "VALUE")
    with leaving(Screen(), store, run, f"the signal {name!r}", as_json=as_json) as (runner, source):
        found = source.read(run)
        if found.record.status not in FINISHED:
            # On a copy: an unknown name or a wrong value is refused here and now.
            here = found.run()
            try:
                here.signal(name, given)
            except UnresolvedFunction:  # the class is not imported here; what its definition says of it is
                check_described(here.workflow, name, given)
        runner.signal(run, name, given, key=key, by=caller(by))


def check_described(workflow: Workflow, name: str, value: object) -> None:
    """
    Check that *value* fits a wait of *workflow* for the signal *name*, by the JSON Schemas in its definition.

    Raises:
        InvalidSignal: it fits none; the error names the field that is wrong.
    """
    waits = [each for each in workflow.components.values() if isinstance(each, WaitFor) and each.signal == name]
    found = [None if each.schema is None else misfit(each.schema.json, value) for each in waits]
    if found and all(found):
        raise InvalidSignal(name, str(found[0]))
