"""
Shows a run while it goes on: a tree of its components on a terminal, plain lines elsewhere, JSON lines on request.

``weft run``, ``weft show --follow`` and the commands that continue a run draw with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from rich.console import Group
from rich.text import Text

from weft.cli.glyphs import glyph, style
from weft.cli.screen import Screen
from weft.core.draw.progress import duration
from weft.views.component_tree import TreeLine, component_tree
from weft.views.text import plain, word

if TYPE_CHECKING:
    from rich.live import Live

    from weft.core.run.run import Run

_WINDOW: Final = 10.0
"""The rate of a map is that of the last seconds."""
_BAR: Final = 20
"""How many characters a bar has."""
_SHARES: Final = 10
"""Without a terminal, the progress of a map is printed this many times."""
_CALM: Final = ("done", "gated", "skipped", "unreached")


class RunView(Protocol):
    """Shows a run."""

    @property
    def screen(self) -> AbstractContextManager[object]:
        """Entered while it is shown."""
        ...

    def show(self, run: Run, status: str, now: float) -> None:
        """Show *run* as it is now."""
        ...


class Rates:
    """How many elements of each map are done in a second."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def rate(self, component: str, done: int, now: float) -> float | None:
        """Note that *done* elements are done *now*; return how many that is a second, or None if it is not known."""
        seen = self._seen.setdefault(component, deque())
        if not seen or now > seen[-1][0]:
            seen.append((now, done))
        while len(seen) > 2 and seen[1][0] <= now - _WINDOW:
            seen.popleft()
        (since, before), (until, after) = seen[0], seen[-1]
        return (after - before) / (until - since) if until > since and after > before else None


def words(line: TreeLine, rate: float | None = None) -> str:
    """
    Return what there is to say about a component besides its state.

    >>> words(TreeLine("price", 1, "running", done=412, failed=3, of=1_000, seconds=2.5), rate=84.0)
    '412/1,000 · 3 failed · 84/s · 7 s left'
    >>> words(TreeLine("charge", 0, "done", done=1, attempts=3, seconds=0.25))
    '3 attempts · 250 ms'
    """
    parts: list[str] = []
    is_going = line.of is not None and line.done + line.failed < line.of
    if line.of is not None:
        parts.append(f"{line.done:,}/{line.of:,}")
    elif line.done > 1:
        parts.append(f"{line.done:,} times")
    if line.failed and line.of is not None:
        parts.append(f"{line.failed:,} failed")
    if is_going and rate and line.of is not None and line.depth:
        left = (line.of - line.done - line.failed) / rate
        parts.append(f"{rate:,.0f}/s" if rate >= 1 else f"{rate * 60:,.0f}/min")
        parts.append(f"{duration(float(round(left)))} left" if left >= 1 else "1 s left")
    if line.attempts > 1 and not line.note:
        parts.append(f"{line.attempts:,} attempts")
    if line.note:
        parts.append(line.note)
    if line.seconds and not is_going:
        parts.append(duration(line.seconds))
    return " · ".join(parts)


def bar(line: TreeLine) -> str:
    """Return how many elements of a map are done, as a bar; empty for anything else."""
    if not line.of or not line.depth or line.state in _CALM:
        return ""
    filled = int(_BAR * min(1.0, (line.done + line.failed) / line.of))
    return f"{'▮' * filled}{'▯' * (_BAR - filled)} "


def tree(lines: Sequence[TreeLine], rate: Callable[[TreeLine], float | None], *, width: int, height: int) -> list[Text]:
    """Return *lines* as text of at most *width* columns; if there is no room for all, those that say most."""
    kept = list(lines)
    left_out = 0
    if len(kept) > height:
        telling = [line for line in lines if line.state not in _CALM][: max(1, height - 1)]
        spare = height - 1 - len(telling)
        calm = [line for line in lines if line.state in _CALM]
        chosen = {id(line) for line in (*telling, *calm[: max(0, spare)])}
        kept = [line for line in lines if id(line) in chosen]
        left_out = len(lines) - len(kept)
    room = min(40, max((len(line.component) + 2 * line.depth for line in kept), default=0))
    drawn = [_drawn(line, rate(line), room, width) for line in kept]
    if left_out:
        drawn.append(Text(f"  and {left_out:,} more", style="dim"))
    return drawn


def _drawn(line: TreeLine, rate: float | None, room: int, width: int) -> Text:
    text = Text("  " + "  " * line.depth)
    text.append(f"{glyph(line.state)} ", style=style(line.state))
    name = plain(line.component)
    text.append(name, style="dim" if line.state == "unreached" else "")
    text.append(" " * (max(0, room - len(name) - 2 * line.depth) + 2))
    text.append(bar(line), style=style(line.state))
    text.append(plain(words(line, rate)), style="red" if line.state == "failed" else "dim")
    text.truncate(width, overflow="ellipsis")
    return text


def heading(run: Run, status: str, now: float, begun: float | None) -> str:
    """Return the first line: the state of a run, its workflow, and how long it has taken."""
    took = "" if begun is None else f"  {duration(max(0.0, now - begun))}"
    return f"{glyph(status)} {run.id}  {run.memory.workflow.name}  {status}{took}  event {len(run.memory.log):,}"


def begun_at(run: Run) -> float | None:
    """Return when the first input of *run* came."""
    for event in run.memory.log:
        at: float | None = getattr(event, "at", None)
        if at:
            return at
    return None


def awaited(run: Run) -> list[str]:
    """Return the signals that *run* waits for."""
    waits = [waiting.activation.node.wait for waiting in (run.memory.waiting or {}).values() if not waiting.attempt]
    return list(dict.fromkeys(wait.signal for wait in waits if wait is not None and wait.signal is not None))


def answers(run: Run, option: str) -> list[str]:
    """Return the commands that answer what *run* waits for; *option* names its store."""
    if option.strip() == "--store memory:":  # no other process can see it
        return [f"waits for {word(signal)}; to answer it, run it with --store runs.db" for signal in awaited(run)]
    return [f"to answer: weft signal {word(run.id)} {word(signal)} VALUE{option}" for signal in awaited(run)]


class LiveView:
    """Draws a run on a terminal, over and over; *option* names its store in the commands that it proposes."""

    def __init__(self, live: Live, option: str = "") -> None:
        self._live, self._rates, self._option = live, Rates(), option

    @property
    def screen(self) -> AbstractContextManager[object]:
        """Entered while it is shown."""
        return self._live

    def show(self, run: Run, status: str, now: float) -> None:
        """Draw *run*."""
        console = self._live.console
        lines = component_tree(run, now=now)
        head = Text(plain(heading(run, status, now, begun_at(run))), style="bold")
        head.truncate(console.width, overflow="ellipsis")
        drawn = tree(
            lines,
            lambda line: self._rates.rate(line.component, line.done + line.failed, now) if line.of else None,
            width=console.width,
            height=max(3, console.height - 5),
        )
        hints = [Text(f"  {plain(text)}", style="dim") for text in answers(run, self._option)[:2]]
        self._live.update(Group(head, *drawn, *hints), refresh=True)


class LineView:
    """Prints a line whenever the state of a component has changed, where there is no terminal."""

    def __init__(self, line: Callable[[str], None], option: str = "") -> None:
        self._line, self._option = line, option
        self._seen: dict[str, object] = {}
        self._status = ""

    @property
    def screen(self) -> AbstractContextManager[object]:
        """Entered while it is shown."""
        return nullcontext()

    def show(self, run: Run, status: str, now: float) -> None:
        """Print what has changed in *run*."""
        for line in component_tree(run, now=now):
            share = int(_SHARES * (line.done + line.failed) / line.of) if line.of else 0
            state = "running" if line.state == "ready" else line.state
            present = (state, share if line.of else line.done, line.failed)
            if self._seen.get(line.component, ("unreached", 0, 0)) != present:
                told = words(line)
                said = told if line.note and not line.of else f"{state}{f': {told}' if told else ''}"
                self._line(f"{run.id}: {glyph(state)} {line.component} {said}")
            self._seen[line.component] = present
        if status not in (self._status, "running"):
            self._line(f"{run.id}: {glyph(status)} {status}")
            for text in answers(run, self._option):
                self._line(f"{run.id}: {text}")
        self._status = status


class JsonView:
    """Prints each event as a line of JSON."""

    def __init__(self, event: Callable[[Any], None]) -> None:
        self._event, self._position = event, 0

    @property
    def screen(self) -> AbstractContextManager[object]:
        """Entered while it is shown."""
        return nullcontext()

    def show(self, run: Run, status: str, now: float) -> None:  # noqa: ARG002 - as the others
        """Print the events since the last call; if some of them were removed, the first one says so."""
        log = run.memory.log
        for event in run.log() if self._position < run.memory.lineage.removed else log[self._position :]:
            self._event(event)
        self._position = len(log)


def view_for(
    screen: Screen, event: Callable[[Any], None] | None = None, *, option: str = "", is_answer: bool = False
) -> RunView:
    """
    Return the view that fits the output of a command.

    Args:
        event: prints an event as JSON; None if JSON is not asked for.
        option: names the store in the commands that the view proposes.
        is_answer: the view is the answer of the command; else it is about its progress, and goes to the error stream.
    """
    if event is not None:
        return JsonView(event)
    if screen.is_terminal if is_answer else screen.shows_progress or screen.is_terminal:
        from rich.live import Live

        return LiveView(Live(console=screen.live_console(), auto_refresh=False), option)
    return LineView(screen.line if is_answer else screen.note, option)
