"""
The demonstration: an order on a file, killed in the middle with ``kill -9``, and resumed.

It needs only the core.  Its report of what ran in which process is read from the files that the two processes left,
and it fails if that is not what Weft promises.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import msgspec

from weft.cli import stored
from weft.cli.demo.orders import ORDER, RUN, STUCK
from weft.cli.demo.world import Called, World
from weft.core.events import ReactionOccurred
from weft.core.run.run import Run
from weft.errors import RunNotFound, StoreNotFound, WeftError
from weft.runner import Runner
from weft.stores import SQLiteStore, SQLiteView

_PATIENCE = 30.0  # seconds for what takes one


class Told(msgspec.Struct, frozen=True):
    """The calls of both processes."""

    first: list[Called]
    """The calls of the process that was killed."""
    second: list[Called]
    """The calls of the process that resumed the run."""

    @property
    def had_run(self) -> list[Called]:
        """The calls that had ended before the kill."""
        return [called for called in self.first if called.ending == "returned"]

    @property
    def in_flight(self) -> list[Called]:
        """The calls that had begun and had not ended."""
        return [called for called in self.first if not called.ending]

    @property
    def again(self) -> list[Called]:
        """The calls that both processes made."""
        known = {called.title for called in self.first}
        return [called for called in self.second if called.title in known]

    def broken_promises(self) -> list[str]:
        """Return descriptions of what should not have happened."""
        had_run = {called.title for called in self.had_run}
        keys = {called.title: called.key for called in self.first}
        return [
            *(f"{called.title} had run, and ran again" for called in self.again if called.title in had_run),
            *(f"{called.title} got another key" for called in self.again if called.key != keys[called.title]),
            *(
                f"{called.title} was in flight, and did not run again"
                for called in self.in_flight
                if called.title not in {each.title for each in self.again}
            ),
        ]


def tell(folder: Path | None = None) -> bool:
    """Run the demonstration, in *folder* or in one that is removed afterwards; return whether all went well."""
    try:
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="weft-demo-") as made:
                return _tell(Path(made))
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            _print_error(f"{folder} is not empty; name a folder that is, or one that does not exist")
            return False
        went_well = _tell(folder.resolve())
        _show(folder)
        return went_well
    except (WeftError, OSError) as error:
        _print_error(str(error))
        return False


def _tell(folder: Path) -> bool:
    world, started = World(folder), time.monotonic()
    _title("An order is placed: one process, one file")
    print(f"  {ORDER['customer']} wants {', '.join(ORDER['basket'])}; the run is called {RUN!r}")
    before, pid = _killed_in_the_middle(world, folder)
    killed = time.monotonic()
    print(f"  {killed - started:.1f} s later supplier and warehouse stop answering, and: kill -9 {pid}")

    at_the_kill = Told(world.calls(), [])
    _title("What the file says")
    print(f"  {before.record.head} events, {before.record.status}, owner: {before.owner or 'none alive'}")
    _list("had run", _titles(at_the_kill.had_run))
    _list("was in flight", _titles(at_the_kill.in_flight))
    _list("had not begun", _waiting(before.run()))

    _title(f"Process {os.getpid()}, which never saw the beginning, resumes it")
    world.restore_the_line()
    run = _resumed(world, folder)
    ended = time.monotonic()
    told = Told(at_the_kill.first, [called for called in world.calls() if called.pid != pid])
    _list("did not run again", sorted(called.title for called in told.had_run))
    _list("ran again", _titles(told.again))
    _list("ran the first time", _new(run, before.record.head, told.first))
    print("  Repeated calls had the idempotency key of the first attempt: the warehouse was asked twice,")
    print(f"  recognised the key, and made {_count(world.reservations(), 'reservation')}.")

    _title("Result")
    print(f"  {run.value('ship')}")
    print(f"  {len(run.log())} events, one history; {ended - killed:.2f} s from the kill to the result")
    if world.reservations() != 1:
        _print_error("the warehouse should have made one reservation")
    for broken in (problems := told.broken_promises()):
        _print_error(broken)
    return not problems and world.reservations() == 1


def _show(folder: Path) -> None:
    """Draw the run into *folder*, and say where it can be looked at."""
    database, picture = World(folder).database, folder / f"{RUN}.svg"
    with SQLiteView(database) as view:
        picture.write_text(stored.read(view, RUN).run().to_svg(), encoding="utf-8")
    _title("Look at it")
    print(f"  its picture      {picture}")
    if not all(find_spec(name) for name in ("typer", "rich", "starlette", "uvicorn", "jinja2")):
        print(f"  first, once      {_beside('pip')} install '.[cli,ui]'")
    print(f"  its events       {_weft()} log {RUN} --store {database}")
    print(f"  in a browser     {_weft()} ui --store {database}")


def _weft() -> str:
    return _beside("weft")


def _beside(program: str) -> str:
    """Return the command for a *program* that is installed beside this interpreter."""
    path = Path(sys.executable).parent / program
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _killed_in_the_middle(world: World, folder: Path) -> tuple[stored.Stored, int]:
    """Let another process begin, kill it, and return the stored run and the number of the process."""
    command = [sys.executable, "-m", "weft.cli.demo.child", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:  # noqa: S603 - this very interpreter
        try:
            give_up = time.monotonic() + _PATIENCE
            while not _is_in_the_middle(world):
                if process.poll() is not None or time.monotonic() > give_up:
                    process.kill()
                    said = process.communicate()[1].decode(errors="backslashreplace")
                    raise ChildProcessError(f"the first process did not get far enough:\n{said}")
                time.sleep(0.02)
        finally:
            process.kill()  # SIGKILL: it cannot react, and writes nothing more
    with SQLiteView(world.database) as view:
        return stored.read(view, RUN), process.pid


def _is_in_the_middle(world: World) -> bool:
    """Return whether all but one price are stored, and the rest hangs."""
    try:
        with SQLiteView(world.database) as view:
            run = stored.read(view, RUN).run()
    except (StoreNotFound, RunNotFound):
        return False
    in_flight = {called.title for called in Told(world.calls(), []).in_flight}
    is_waiting = {"reserve", f"price of {STUCK}"} <= in_flight and world.reservations() == 1
    return is_waiting and len(run.productions("price")) == len(ORDER["basket"]) - 1


def _resumed(world: World, folder: Path) -> Run:
    with Runner(SQLiteStore(world.database), context={"folder": str(folder)}) as runner:
        run: Run = runner.resume(RUN).wait(_PATIENCE)
        return run


def _waiting(run: Run) -> list[str]:
    """Return the components that nothing has reached yet."""
    seen = {getattr(event, "component", "") for event in run.log()} | {name for name, _ in run.memory.open_all()}
    return [name for name in run.workflow.components if name not in seen]


def _new(run: Run, head: int, first: list[Called]) -> list[str]:
    """Return the components that produced something after the event *head* and had not been called before."""
    known = {called.component for called in first}
    made = [event.component for event in run.log()[head:] if isinstance(event, ReactionOccurred)]
    return [name for name in dict.fromkeys(made) if name not in known]


# -- lines ---------------------------------------------------------------------------------------


def _title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def _list(title: str, items: Iterable[str]) -> None:
    print(f"  {title:20}{', '.join(items) or 'nothing'}", flush=True)


def _titles(calls: Iterable[Called]) -> list[str]:
    """Return the titles of *calls*, in an order that does not depend on which thread was quicker."""
    return sorted(
        f"{called.title} (attempt {called.attempt})" if called.attempt > 1 else called.title for called in calls
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _print_error(text: str) -> None:
    print(f"weft demo: {text}", file=sys.stderr)
