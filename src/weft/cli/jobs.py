"""``weft jobs``: cancels, retries, signals and finishes many runs of a fleet, and shows the jobs that do it."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from weft.cli.options import AsJson, By, Dsns, Schema, Undo, caller, parsed
from weft.cli.screen import Screen, errors_in_one_line
from weft.cli.store_option import databases
from weft.errors import CommandError
from weft.views.text import ago, count

if TYPE_CHECKING:
    from weft.fleet import Client
    from weft.runner.jobs.commands import BulkPreview
    from weft.runner.jobs.rows import JobStatus

jobs = typer.Typer(
    name="jobs",
    help="Cancel, retry, signal or finish many runs of a fleet.",
    invoke_without_command=True,
    no_args_is_help=False,
)

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job.")]
Workflow = Annotated[str | None, typer.Option(help="Only runs of the workflow of this name.", show_default=False)]
Status = Annotated[
    list[str] | None, typer.Option(help="Only runs in this state; can be used several times.", show_default=False)
]
Failed = Annotated[
    bool | None,
    typer.Option(
        "--failed/--not-failed",
        help="Only runs with failures that nothing has handled, or only those without.",
        show_default=False,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only runs created since then: 2026-11-18, 2026-11-18T03:00Z, or 30m, 2h, 7d ago.",
        show_default=False,
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="All runs; required if nothing else says which.")]
Preview = Annotated[bool, typer.Option("--preview", help="Say what it would do, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Detach = Annotated[bool, typer.Option("--detach", help="Do not watch: the workers do it all the same.")]
Name = Annotated[str | None, typer.Option("--id", help="The id of the job.", show_default=False)]

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@contextmanager
def _client(screen: Screen, dsns: list[str] | None, schema: str) -> Generator[Client, None, None]:
    with errors_in_one_line(screen):
        from weft.fleet import Client

        with Client(databases(dsns), schema=schema) as client:
            yield client


@jobs.callback()
def listed(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The maximum number of jobs.")] = 20,
    dsn: Dsns = None,
    schema: Schema = "public",
    as_json: AsJson = False,
) -> None:
    """Cancel, retry, signal or finish many runs of a fleet, and watch that; alone, list the jobs."""
    if context.invoked_subcommand is not None:
        return
    screen = Screen()
    with _client(screen, dsn, schema) as client:
        found = client.jobs(limit=limit)
        if as_json:
            screen.json([_data(each) for each in found], indent=2)
        elif found:
            now = time.time()
            screen.table(
                ("ID", "STATE", "VISITED", "SENT", "SKIPPED", "CREATED", "BY", "JOB"),
                [_row(each, now) for each in found],
            )
            _complain(screen, found)
        else:
            screen.note("no jobs; weft jobs retry --help starts one")


@jobs.command()
def cancel(
    workflow: Workflow = None,
    status: Status = None,
    failed: Failed = None,
    since: Since = None,
    everything: Everything = False,
    reason: Annotated[str, typer.Option(help="Why, for the logs of the runs.")] = "",
    undo: Undo = True,
    preview: Preview = False,
    yes: Yes = False,
    detach: Detach = False,
    id: Name = None,
    dsn: Dsns = None,
    schema: Schema = "public",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Cancel all unfinished runs that match, and undo them."""
    chosen = _Chosen(workflow, status, failed, since, everything)
    how = _How(preview, yes, detach, id, by, as_json)
    _start("cancel", chosen, how, dsn, schema, reason=reason, undo=undo)


@jobs.command()
def retry(
    component: Annotated[
        str | None, typer.Argument(metavar="COMPONENT", help="Only the failures of this component.", show_default=False)
    ] = None,
    workflow: Workflow = None,
    status: Status = None,
    failed: Failed = None,
    since: Since = None,
    everything: Everything = False,
    preview: Preview = False,
    yes: Yes = False,
    detach: Detach = False,
    id: Name = None,
    dsn: Dsns = None,
    schema: Schema = "public",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Run again what has failed in all runs that match."""
    chosen = _Chosen(workflow, status, failed, since, everything)
    how = _How(preview, yes, detach, id, by, as_json)
    _start("retry", chosen, how, dsn, schema, component=component)


@jobs.command()
def signal(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the signal.", show_default=False)],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or @FILE with JSON.")] = "null",
    workflow: Workflow = None,
    status: Status = None,
    failed: Failed = None,
    since: Since = None,
    everything: Everything = False,
    preview: Preview = False,
    yes: Yes = False,
    detach: Detach = False,
    id: Name = None,
    dsn: Dsns = None,
    schema: Schema = "public",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Send a signal to all unfinished runs that match."""
    chosen = _Chosen(workflow, status, failed, since, everything)
    how = _How(preview, yes, detach, id, by, as_json)
    _start("signal", chosen, how, dsn, schema, name=name, value=parsed(value, "VALUE"))


@jobs.command()
def finish(
    workflow: Workflow = None,
    status: Status = None,
    failed: Failed = None,
    since: Since = None,
    everything: Everything = False,
    preview: Preview = False,
    yes: Yes = False,
    detach: Detach = False,
    id: Name = None,
    dsn: Dsns = None,
    schema: Schema = "public",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Let all open runs that match finish.  They do when nothing is left to do in them."""
    chosen = _Chosen(workflow, status, failed, since, everything)
    _start("finish", chosen, _How(preview, yes, detach, id, by, as_json), dsn, schema)


@jobs.command()
def watch(job: JobId, dsn: Dsns = None, schema: Schema = "public", as_json: AsJson = False) -> None:
    """Show a job until it has ended; Ctrl-C ends only that."""
    screen = Screen()
    with _client(screen, dsn, schema) as client:
        _watch(screen, client.watch_job(job), as_json=as_json)


@jobs.command()
def pause(job: JobId, dsn: Dsns = None, schema: Schema = "public", by: By = None, as_json: AsJson = False) -> None:
    """Let a job send nothing more until it is resumed."""
    screen = Screen()
    with _client(screen, dsn, schema) as client:
        _report(screen, client.pause_job(job, by=caller(by)), as_json=as_json)


@jobs.command()
def resume(job: JobId, dsn: Dsns = None, schema: Schema = "public", by: By = None, as_json: AsJson = False) -> None:
    """Let a job go on after a pause.  If its worker has died, another one looks at it now."""
    screen = Screen()
    with _client(screen, dsn, schema) as client:
        _report(screen, client.resume_job(job, by=caller(by)), as_json=as_json)


@jobs.command()
def stop(job: JobId, dsn: Dsns = None, schema: Schema = "public", by: By = None, as_json: AsJson = False) -> None:
    """End a job; what it has sent stays sent."""
    screen = Screen()
    with _client(screen, dsn, schema) as client:
        _report(screen, client.cancel_job(job, by=caller(by)), as_json=as_json)


# -- starting ------------------------------------------------------------------------------------


class _Chosen(msgspec.Struct, frozen=True):
    """The options that say which runs are meant."""

    workflow: str | None
    status: list[str] | None
    failed: bool | None
    since: str | None
    everything: bool

    def asked(self) -> dict[str, Any]:
        """Return them as arguments of ``preview_bulk`` and ``bulk``."""
        found: dict[str, Any] = {"workflow": self.workflow, "status": self.status or None, "failed": self.failed}
        found["since"] = None if self.since is None else _time(self.since)
        if not self.everything and all(each is None for each in found.values()):
            raise CommandError("which runs? Use --workflow, --status, --failed or --since; --all is every run")
        return found


class _How(msgspec.Struct, frozen=True):
    """The options that say how a job is started."""

    preview: bool
    yes: bool
    detach: bool
    id: str | None
    by: str | None
    as_json: bool


def _start(operation: Any, chosen: _Chosen, how: _How, dsn: list[str] | None, schema: str, **arguments: Any) -> None:
    screen = Screen()
    with _client(screen, dsn, schema) as client:
        asked = chosen.asked()
        named = {each: arguments[each] for each in ("component", "name") if each in arguments}
        preview = client.preview_bulk(operation, **asked, **named)
        if how.preview:
            _show(screen, preview, as_json=how.as_json)
            return
        if not how.yes:
            if how.as_json or not screen.is_terminal:
                raise CommandError(f"{count(preview.sent, 'run')} would be meant: look with --preview, then use --yes")
            _show(screen, preview, as_json=False)
            if not typer.confirm(f"{operation}: {count(preview.sent, 'run')}?"):
                screen.note("nothing was done")
                raise typer.Exit(1)
        job = client.bulk(operation, **asked, **arguments, everything=chosen.everything, id=how.id, by=caller(how.by))
        if how.detach:
            _report(screen, job, as_json=how.as_json)
            return
        screen.note(f"job {job.id}: Ctrl-C stops watching, not the job; weft jobs stop {job.id} ends it")
        _watch(screen, client.watch_job(job.id), as_json=how.as_json)


def _time(text: str) -> datetime:
    """
    Return the time that *text* says.

    >>> _time("2026-11-18T03:00Z").isoformat(), _time("2026-11-18").isoformat()
    ('2026-11-18T03:00:00+00:00', '2026-11-18T00:00:00+00:00')
    """
    if relative := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text):
        return datetime.fromtimestamp(time.time() - float(relative[1]) * _UNITS[relative[2]], UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(
            f"--since {text!r} is not a time; use 2026-11-18, 2026-11-18T03:00Z, 30m, 2h or 7d"
        ) from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


# -- showing -------------------------------------------------------------------------------------


def matching(runs: int) -> str:
    """
    Return how many *runs* match.

    >>> matching(1), matching(1200)
    ('1 run matches', '1,200 runs match')
    """
    return f"{count(runs, 'run')} match{'es' if runs == 1 else ''}"


def _show(screen: Screen, preview: BulkPreview, *, as_json: bool) -> None:
    """Print what a job would do."""
    if as_json:
        counts = [
            {"workflow": workflow, "status": status, "runs": runs}
            for (workflow, status), runs in preview.counts.items()
        ]
        screen.json(
            {
                "operation": preview.operation,
                "matched": preview.matched,
                "sent": preview.sent,
                "skipped": preview.skipped,
                "counts": counts,
                "examples": list(preview.examples),
            },
            indent=2,
        )
        return
    screen.line(f"{preview.text}: {matching(preview.matched)}, {preview.sent:,} would be sent it")
    for (workflow, status), runs in preview.counts.items():
        screen.line(f"  {runs:>10,}  {workflow}  {status}")
    for reason, runs in preview.skipped.items():
        screen.line(f"  {runs:>10,}  skipped: {reason}")
    if preview.examples:
        screen.line(f"  such as {', '.join(preview.examples)}")


def _watch(screen: Screen, states: Iterable[JobStatus], *, as_json: bool) -> None:
    """Show a job until it has ended: as a moving line in a terminal, else as a line for each change."""
    last: JobStatus | None = None
    try:
        if screen.shows_progress and not as_json:
            with screen.status() as moving:
                for last in states:
                    moving.update(_words(last))
        else:
            for last in states:
                screen.json(_data(last)) if as_json else screen.note(_words(last))
                screen.flush()
    except KeyboardInterrupt:
        if last is not None:
            screen.note(f"job {last.id} goes on; weft jobs watch {last.id} shows it again")
        raise typer.Exit(130) from None
    assert last is not None  # noqa: S101 - a job that is not there is an error
    if not as_json:
        _report(screen, last, as_json=False)
    if last.state != "completed":
        raise typer.Exit(1)


def _report(screen: Screen, job: JobStatus, *, as_json: bool) -> None:
    if as_json:
        screen.json(_data(job), indent=2)
        return
    screen.line(f"{job.id}: {_words(job)}")
    for reason, runs in job.skipped.items():
        screen.line(f"  {runs:>10,}  skipped: {reason}")
    _complain(screen, [job])


def _complain(screen: Screen, found: Iterable[JobStatus]) -> None:
    for each in found:
        if each.problem:
            screen.complain(f"{each.id}: {each.problem}")


def _words(job: JobStatus) -> str:
    """Return how far a job is, in one line."""
    parts = [f"{job.state}", f"{job.visited:,} of {job.matched:,} runs", f"sent to {job.sent:,}"]
    if job.rate is not None and job.state == "running":
        parts.append(f"{job.rate:,.0f}/s")
    if job.left is not None:
        parts.append(f"{job.left:,.0f} s left")
    if job.state == "running" and not job.driver:
        parts.append("no worker has taken it yet")
    return " · ".join(parts)


def _row(job: JobStatus, now: float) -> tuple[str, ...]:
    return (
        job.id,
        job.state,
        f"{job.visited:,}/{job.matched:,}",
        f"{job.sent:,}",
        f"{sum(job.skipped.values()):,}",
        ago(now - job.created_at.timestamp()),
        job.by or "",
        job.text,
    )


def _data(job: JobStatus) -> dict[str, Any]:
    return msgspec.to_builtins(job)  # type: ignore[no-any-return]
