"""
The progress of a box in a picture: its state, and the figures beside it.

    >>> Progress("done", done=37, of=100, attempts=3, seconds=1.234).summary
    '✓ 37/100 · ×3 · 1.23 s'
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

State = Literal["unreached", "waiting", "ready", "running", "done", "gated", "skipped", "failed"]

SIGNS: Final[dict[State, str]] = {
    "unreached": "",
    "waiting": "…",
    "ready": "▸",
    "running": "▶",
    "done": "✓",
    "gated": "⊘",
    "skipped": "↷",
    "failed": "✗",
}
"""Signs that tell states apart without their colours."""


class Progress(msgspec.Struct, frozen=True):
    """The state of one component, and the figures beside it."""

    state: State
    done: int = 0
    failed: int = 0
    skipped: int = 0
    refused: int = 0
    """How often its condition, or it as a condition, said no."""
    of: int | None = None
    """How many elements there are, for a component in a map."""
    attempts: int = 0
    """The most that one of its activations has needed so far."""
    seconds: float = 0.0
    """How long it has run, all in all."""
    error: str = ""
    """The last failure."""
    at: str = ""
    """The state that it is in, if it is a machine that has one."""
    letters: int = 0
    """How many of its failures are kept as dead letters."""
    children: int = 0
    """How many other runs it has started."""

    @property
    def summary(self) -> str:
        """The state in a line: a sign, how often, attempts if there was more than one, and the time it took."""
        parts = [self._count] if self._count else []
        if self.failed and (self.failed > 1 or self.done):
            parts.append(f"{self.failed:,} failed")
        if self.skipped and (self.skipped > 1 or self.done):
            parts.append(f"{self.skipped:,} skipped")
        if self.refused and (self.refused > 1 or self.done):
            parts.append(f"{self.refused:,} no")
        if self.at:
            parts.append(f"in {self.at}")
        if self.letters:
            parts.append("dead letter" if self.letters == 1 else f"{self.letters:,} dead letters")
        if self.children:
            parts.append("1 child run" if self.children == 1 else f"{self.children:,} child runs")
        if self.attempts > 1:
            parts.append(f"×{self.attempts:,}")
        if self.seconds:
            parts.append(duration(self.seconds))
        return f"{SIGNS[self.state]} {' · '.join(parts)}".strip()

    @property
    def _count(self) -> str:
        if self.of is not None:
            return f"{self.done:,}/{self.of:,}"
        is_one = self.done == 1 and not (self.failed or self.skipped or self.refused)
        return f"{self.done:,}" if self.done and not is_one else ""


def duration(seconds: float) -> str:
    """
    Return *seconds* in a few characters.

    >>> [duration(s) for s in (0.000012, 0.0345, 2.5, 80, 5000, 200_000)]
    ['12 µs', '34.5 ms', '2.5 s', '1 min 20 s', '1 h 23 min', '2 d 7 h']

    What rounds to a whole unit is one:

    >>> [duration(s) for s in (0.000_999_9, 0.9999, 59.99)]
    ['1 ms', '1 s', '1 min']
    """
    if seconds < 0.000_999_5:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.999_5:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for name, size, below, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            count, rest = divmod(whole, size)
            return f"{count} {name} {rest // part} {below}" if rest // part else f"{count} {name}"
    return f"{whole} s"
