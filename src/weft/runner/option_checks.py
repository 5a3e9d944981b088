"""
Checks of the options and arguments of a call: a wrong one is refused before anything happens.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, cast, get_args, overload

from weft.core.compose.flow import Fragment
from weft.core.workflow import Workflow
from weft.errors import InvalidArgument, InvalidOption
from weft.ports.store import RunRecord, RunStatus
from weft.runner.checkpoints import check_count


def check_choice(name: str, value: object, choices: object) -> None:
    """
    Refuse a *value* that is not one of the *choices*, a ``Literal``.

    Raises:
        InvalidOption: it is not.
    """
    allowed = get_args(choices)
    if value not in allowed:
        raise InvalidOption(f"{name}={value!r}: use {' or '.join(map(repr, allowed))}")


def check_undo(undo: object, component: object) -> None:
    """
    Refuse a choice that is none, or one for a single component.

    Raises:
        InvalidOption: it is.
    """
    if not isinstance(undo, bool):
        raise InvalidOption(f"undo={undo!r:.60}: use True or False")
    if component is not None and not undo:
        raise InvalidOption("undo=False is for a whole run; the compensation of a cancelled component is always called")


def check_text(name: str, value: object) -> None:
    """
    Refuse what cannot be the name of something in a log.

    Raises:
        InvalidOption: it is not text, or UTF-8 cannot hold it.
    """
    try:
        is_text = isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise InvalidOption(f"{name}={value!r}: use text, at least one character and no lone surrogates")


def check_workflow(workflow: object, call: str = "start") -> None:
    """
    Refuse an argument of *call* that is not a workflow.

    Raises:
        InvalidArgument: it is something else; the error says how to make a workflow of it.
    """
    if isinstance(workflow, Workflow):
        return
    hint, given = "", cast("Any", workflow)
    if isinstance(workflow, Fragment):
        name = getattr(given, "name", None) or "name"
        hint = f"; make one of it: Workflow({name!r}, ...)"
    elif callable(workflow):
        hint = "; make a step of the function, and a workflow of that: Workflow('name', step(function))"
    elif isinstance(workflow, str):
        hint = "; pass the definition itself, not its name"
    raise InvalidArgument(f"{call}() takes a workflow, got {workflow!r:.120}{hint}")


def check_context(context: object) -> None:
    """
    Refuse a context that is not a mapping.

    Raises:
        InvalidOption: it is something else.
    """
    if not isinstance(context, Mapping | None):
        raise InvalidOption(f"context={context!r:.80}: use a mapping of keys to values: context={{'key': value}}")


def check_seconds(name: str, value: object) -> None:
    """
    Refuse what is neither a number of seconds above 0 nor None.

    Raises:
        InvalidOption: it is not.
    """
    is_fine = value is None or (isinstance(value, int | float) and value is not True and 0 < value < math.inf)
    if not is_fine:
        raise InvalidOption(f"{name}={value!r}: use a number of seconds above 0, or None")


def check_deadline(value: object) -> None:
    """
    Refuse a deadline that is not a number of seconds, or None.

    Raises:
        InvalidArgument: it is something else.
    """
    if value is not None and (not isinstance(value, int | float) or math.isnan(value)):
        raise InvalidArgument(f"deadline={value!r:.80}: use a number of seconds")


def check_timeout(value: object) -> None:
    """
    Refuse a timeout of a wait that is not a number of seconds, 0 or more.

    Raises:
        InvalidOption: it is something else.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise InvalidOption(f"timeout={value!r:.80}: use a number of seconds, 0 or more, or None for no end")


def check_grace(value: object) -> None:
    """
    Refuse a grace time that is not a number of seconds, 0 or more.

    Raises:
        InvalidOption: it is something else.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise InvalidOption(f"grace={value!r:.80}: use a number of seconds, 0 or more")


def check_keep(value: object) -> None:
    """
    Refuse a time for which values are kept that is not a number of seconds, more than 0.

    Raises:
        InvalidOption: it is something else.
    """
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e12):
        raise InvalidOption(f"keep_values_for={value!r:.80}: use a number of seconds, more than 0")


def as_statuses(status: RunStatus | Collection[RunStatus] | None) -> Collection[RunStatus] | None:
    """
    Return the statuses that a caller asks for, one or several of them; None for all.

    Raises:
        InvalidOption: it is not a status.
    """
    if status is None:
        return None
    statuses: Collection[RunStatus] = [status] if isinstance(status, str) else list(status)
    for each in statuses:
        check_choice("status", each, RunStatus)
    return statuses


Time = float | datetime
"""A point in time: seconds since the epoch, or a datetime with a time zone."""


@overload
def as_time(name: str, value: Time) -> float: ...


@overload
def as_time(name: str, value: Time | None) -> float | None: ...


def as_time(name: str, value: Time | None) -> float | None:
    """
    Return a point in time as seconds since the epoch; None for none.

    A store would compare anything: in SQLite every number is less than every text.

    Raises:
        InvalidOption: it is something else, or a datetime without a time zone.
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidOption(f"{name}={value!r}: use a datetime with a time zone: datetime.now(timezone.utc)")
        return value.timestamp()
    if type(value) not in (int, float) or math.isnan(value):
        raise InvalidOption(f"{name}={value!r:.80}: use seconds since the epoch, or a datetime with a time zone")
    return float(value)


def check_listing(workflow: object, failed: object) -> None:
    """
    Refuse filters that runs cannot be chosen by.

    Raises:
        InvalidOption: *workflow* is not the name of one, or *failed* is neither True nor False nor None.
    """
    if not isinstance(workflow, str | None):
        raise InvalidOption(f"workflow={workflow!r:.80}: use the name of a workflow, such as orders.name")
    if not isinstance(failed, bool | None):
        raise InvalidOption(f"failed={failed!r:.80}: use True or False, or leave it out for both")


def check_page(limit: object, after: object) -> None:
    """
    Refuse what is not a page of records: a number of them, and the last one of the page before.

    Raises:
        InvalidOption: it is not.
    """
    check_count("limit", limit)
    if not isinstance(after, RunRecord | None):
        raise InvalidOption(f"after={after!r:.80}: use the last record of the page before, as runs() returned it")


def check_on_complete_args(callback: object, args: object) -> None:
    """
    Refuse arguments that a callback could not be called with.

    Raises:
        InvalidOption: they are not a tuple, or there is no callback.
    """
    if not isinstance(args, tuple | list):
        raise InvalidOption(f"on_complete_args={args!r:.80}: use a tuple of arguments, such as ({args!r:.20},)")
    if args and callback is None:
        raise InvalidOption(f"on_complete_args={args!r:.80}: give on_complete= too, which is called with them")
