"""``weft schedules``: lists schedules and their next times, pauses, unpauses, backfills and removes them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from weft.cli.changing import changing
from weft.cli.options import AsJson, By, caller
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import StoreOption, located
from weft.errors import CommandError

if TYPE_CHECKING:
    from weft.runner import Runner
    from weft.runner.schedules.rows import ScheduleStatus

schedules = typer.Typer(
    name="schedules", help="List schedules, and act on them.", invoke_without_command=True, no_args_is_help=False
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a schedule.")]


@contextmanager
def _runner(screen: Screen, store: str | None) -> Generator[Runner, None, None]:
    with errors_in_one_line(screen), changing(located(store)) as (runner, _):
        yield runner


@schedules.callback()
def listed(context: typer.Context, store: StoreOption = None, as_json: AsJson = False) -> None:
    """List schedules, and act on them."""
    if context.invoked_subcommand is not None:
        return
    screen = Screen()
    with _runner(screen, store) as runner:
        found = runner.schedules()
        if as_json:
            screen.json([_data(each) for each in found], indent=2)
        elif found:
            head = ("NAME", "WORKFLOW", "RULE", "OVERLAP", "NEXT", "LAST", "FIRED", "SKIPPED", "STATE")
            screen.table(head, [_row(each) for each in found])
            for each in found:
                if each.problem:
                    screen.complain(f"{each.name}: {each.problem}")
        else:
            screen.note(f"no schedules in {located(store).shown}")


@schedules.command()
def next(  # noqa: A001 - the name of the command
    name: Name,
    count: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 10,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the next times of a schedule, in UTC."""
    screen = Screen()
    with _runner(screen, store) as runner:
        found = [_shown(at) for at in runner.next_firings(name, count)]
        if as_json:
            screen.json(found, indent=2)
        else:
            for each in found:
                screen.line(each)


@schedules.command()
def pause(name: Name, store: StoreOption = None, by: By = None, as_json: AsJson = False) -> None:
    """Let a schedule start nothing until it is unpaused."""
    _change(store, name, lambda runner: runner.pause(name, by=caller(by)), "paused", as_json=as_json)


@schedules.command()
def unpause(name: Name, store: StoreOption = None, by: By = None, as_json: AsJson = False) -> None:
    """Let a schedule start runs again, from now on."""
    _change(store, name, lambda runner: runner.unpause(name, by=caller(by)), "goes on", as_json=as_json)


@schedules.command()
def remove(name: Name, store: StoreOption = None, by: By = None, as_json: AsJson = False) -> None:
    """Remove a schedule; its runs stay."""
    _change(store, name, lambda runner: runner.unschedule(name, by=caller(by)), "removed", as_json=as_json)


def _change(store: str | None, name: str, act: Callable[[Runner], object], what: str, *, as_json: bool) -> None:
    """Let a runner *act* on the schedule *name*, and print *what* that has done."""
    screen = Screen()
    with _runner(screen, store) as runner:
        act(runner)
        _answer(screen, {"name": name, "done": what}, f"{name}: {what}", as_json=as_json)


@schedules.command()
def backfill(
    name: Name,
    since: Annotated[str, typer.Argument(metavar="SINCE", help="After this time: 2026-11-01, or 2026-11-01T03:00Z.")],
    until: Annotated[str, typer.Argument(metavar="UNTIL", help="Up to this time.")],
    store: StoreOption = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Start the runs of a schedule for a span.  Those that exist are left as they are."""
    screen = Screen()
    with _runner(screen, store) as runner:
        count = runner.backfill(name, _time(since), _time(until), by=caller(by))
        text = f"{name}: {count:,} times; a worker that knows the workflow starts their runs"
        _answer(screen, {"name": name, "firings": count}, text, as_json=as_json)


def _answer(screen: Screen, data: Any, text: str, *, as_json: bool) -> None:
    if as_json:
        screen.json(data, indent=2)
    else:
        screen.line(text)


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"{text!r} is not a time; use 2026-11-01 or 2026-11-01T03:00+01:00") from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _shown(at: datetime | None) -> str:
    return "-" if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _row(each: ScheduleStatus) -> tuple[str, ...]:
    state = (
        "paused" if each.is_paused else "has a problem" if each.problem else "done" if each.next_at is None else "on"
    )
    if each.pending or each.backfills:
        state += f", {each.pending} pending" if each.pending else ", backfilling"
    times = (_shown(each.next_at), _shown(each.last_at))
    return (each.name, each.workflow, each.timing, each.overlap, *times, f"{each.fired:,}", f"{each.skipped:,}", state)


def _data(each: ScheduleStatus) -> dict[str, Any]:
    found = msgspec.to_builtins(each)
    return {**found, "next_at": each.next_at and _shown(each.next_at), "last_at": each.last_at and _shown(each.last_at)}
