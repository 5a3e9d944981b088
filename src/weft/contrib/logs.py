"""
Log records that say which run, component and attempt wrote them, for ``logging`` and for structlog.

    >>> import logging, sys
    >>> from weft import Workflow, step
    >>> log = logging.getLogger("shop")
    >>> handler = logging.StreamHandler(sys.stdout)
    >>> handler.addFilter(RunFilter())
    >>> handler.setFormatter(logging.Formatter("%(component)s, attempt %(attempt)s: %(message)s"))
    >>> log.addHandler(handler)
    >>> def charge(amount):
    ...     log.warning("the bank is slow")
    ...     return amount
    >>> run = Workflow("orders", step(charge)).run(5)
    charge, attempt 1: the bank is slow
    >>> log.removeHandler(handler)

Add the filter to handlers: the filter of a logger does not see the records of its children.  A record from elsewhere
has empty fields.  Records of Weft itself that concern one run name it in the same fields.

A step in another process logs with the handlers of that process; give them the filter there.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from weft.core.functions.current import current
from weft.errors import NoRun

__all__ = ["RunFilter", "add_run"]


class RunFilter(logging.Filter):
    """Adds ``run_id``, ``component`` and ``attempt`` to every record, and lets all of them pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields that *record* does not have."""
        run_id, component, attempt = _here() if not hasattr(record, "run_id") else ("", "", "")
        fields = {"run_id": run_id, "component": component, "attempt": attempt}
        record.__dict__.update({name: held for name, held in fields.items() if not hasattr(record, name)})
        return True


def add_run(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """
    Add the run to *event*, as a processor of structlog; outside of a component, add nothing.

    >>> add_run(None, "info", {"event": "started"})
    {'event': 'started'}
    """
    run_id, component, attempt = _here()
    if component:
        event.setdefault("run_id", run_id)
        event.setdefault("component", component)
        event.setdefault("attempt", attempt)
    return event


def _here() -> tuple[str, str, int | str]:
    """Return the run, the component and the attempt that run here."""
    try:
        now = current()
    except NoRun:
        return "", "", ""
    return now.run_id, now.component, now.attempt
