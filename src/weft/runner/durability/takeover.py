"""
Decides what happens to a run whose last owner died: its next start is noted in the log first, or the run is parked.

A step can kill its process: by a segmentation fault, ``os._exit``, or more memory than there is.  Resuming its run
starts the step again, so without a limit it would kill one process after the other.  The log counts the deaths:

    an owner dies ──► another one takes the run over ──► RunTakenOver is durable ──► something starts ──► it dies, ...
                              │                                                         │
                              └── nothing starts now, and the count has changed:        └── progress: nothing counts
                                  noted too, with the epoch of the owner before             any more

See docs/adr/0028-poison.md.

Invariants:

1. Only starts count: a run that was taken over and has started nothing has not killed its process.  The first death
   always counts: nothing is noted before it, so the log cannot say whether that owner had started something.
2. Only progress resets the count, or a person.  Progress is an event that says that something has ended, or that the
   run was changed; a step that is announced is not, and neither is an input, which may come before every death.
3. A release does not count, whatever was in flight then; it does not reset the count either.
4. An owner that starts nothing and goes leaves the count as it found it: what it learnt of the owner before is noted.
   Until then the store remembers the death, so the owner may end without noting it, or ask the store twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from weft.core import events as ev
from weft.core.lineage.history import last_takeover

MOST: Final = 3
"""A run is parked when this many owners in a row have died after they had started something of it, without progress."""

NO_PROGRESS: Final = ev.NO_PROGRESS

_NOTHING: Final = ev.RunTakenOver(0, 0, 0)


class Takeover(msgspec.Struct, frozen=True):
    """The log has to say how many owners have died, before something of the run starts."""

    deaths: int
    """How many owners in a row have died without progress."""
    is_news: bool = False
    """Whether the log says another number: then it is noted at once, since this owner may start nothing and go."""

    @property
    def is_poison(self) -> bool:
        """Whether the run is parked instead: starting it would probably kill this process too."""
        return self.deaths >= MOST


def takeover(log: Sequence[Any], died_in: int | None, *, was_parked: bool) -> Takeover | None:
    """
    Return what to note in *log* before something starts; None if there is nothing to note.

    Args:
        died_in: the epoch of the first owner that died without releasing the run, of those since its last event; None
            if none did.
        was_parked: whether the run was parked, so that a person has resumed it: then the count begins again.

    >>> started = [ev.WorkflowDefined(1, "r", None), ev.InputReceived(2, 5, 1)]
    >>> takeover(started, None, was_parked=False)
    >>> takeover(started, 1, was_parked=False)
    Takeover(deaths=1, is_news=False)
    >>> takeover([*started, ev.RunTakenOver(3, 1, 2, "crash")], 2, was_parked=False)
    Takeover(deaths=2, is_news=True)
    >>> takeover([*started, ev.RunTakenOver(3, 2, 3, "crash")], 3, was_parked=False).is_poison
    True
    """
    noted = last_takeover(log) or _NOTHING
    if was_parked:
        return Takeover(0, is_news=True) if noted.deaths else None
    if not noted.deaths:  # whether that one had started something is not known
        return Takeover(1) if died_in is not None else None
    is_fatal = noted.epoch == died_in  # else that one has started nothing, or has not died
    return Takeover(noted.deaths + is_fatal, is_news=is_fatal)
