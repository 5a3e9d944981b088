"""``weft limits``: lists the limits of steps that the workers of a fleet share."""

from __future__ import annotations

import msgspec

from weft.cli.options import AsJson
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located
from weft.errors import CommandError


def limits(store: StoreOption = None, as_json: AsJson = False) -> None:
    """List the limits of steps that the workers of a fleet share."""
    screen = Screen()
    with errors_in_one_line(screen):
        url = located(store)
        if url.file is not None:
            raise CommandError(
                f"{url.shown} is a file, and its limits are in the process that drives it: weft.limits()"
            )
        from weft.fleet import Client

        with Client(url.text) as client:
            found = client.limits()
    if as_json:
        screen.json([msgspec.structs.asdict(each) for each in found], indent=2)
    elif found:
        head = ("KIND", "NAME", "RULE", "IN USE", "WAITING", "WORKERS", "STATE")
        rows = [
            (*(each.kind, each.name, each.rule, f"{each.used:,}", f"{each.waiting:,}", f"{each.workers:,}"), each.state)
            for each in found
        ]
        screen.table(head, rows)
    else:
        screen.note(f"no limits were used in {url.shown}")
