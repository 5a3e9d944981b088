"""
The messages that a simulated runner has accepted for good, and whether each of them has had its effect.

An accepted message has exactly one effect, and those of one sender that went through the inbox have theirs in the order
in which they were accepted.  A message for a run that has finished before it was read stays in the inbox; that of any
other run is empty in the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from weft.core import events as ev
from weft.core.run.run import Run
from weft.log.messages import decode_message
from weft.ports.store import FINISHED, Message

Kind: TypeAlias = Literal["signal", "policies", "cancel", "finish"]
_SAYS_WHO: Final = (ev.PolicyChanged, ev.RunCancelled, ev.RunFinished)


class Accepted(msgspec.Struct, frozen=True):
    """A message that a runner has accepted, so that it may not be lost."""

    kind: Kind
    tag: str
    """The name of the message: the key of a signal, and for the others what they say of their sender."""
    sender: str
    is_remote: bool
    """Whether it went through the inbox."""

    def __str__(self) -> str:
        return f"the message {self.tag!r} ({self.kind})"


class MessageLedger:
    """The accepted messages of all runs; it outlives the processes.  With *lies*, a message may be stored twice."""

    def __init__(self, *, lies: bool) -> None:
        self._lies = lies
        self._accepted: dict[str, dict[str, Accepted]] = {}
        """By run and tag, in the order in which they were first accepted."""
        self._tags = 0
        self._direct: set[tuple[str, str]] = set()
        """Run and tag of the messages that were also sent to the runner that holds the run, and may overtake others."""

    def new_tag(self) -> str:
        """Return a name for a message that no other one has."""
        self._tags += 1
        return f"message {self._tags}"

    def accepted(self, run: str, message: Accepted) -> None:
        """Note that a runner has accepted a *message* for good; one that was accepted before counts once."""
        self._accepted.setdefault(run, {}).setdefault(message.tag, message)

    def sends_directly(self, run: str, tag: str) -> None:
        """Note that a message is sent to the runner that holds the run."""
        self._direct.add((run, tag))

    def is_accepted(self, run: str, tag: str) -> bool:
        """Return whether a message was accepted for good."""
        return tag in self._accepted.get(run, {})

    def deleted(self, run: str) -> None:
        """Note that *run* was deleted, and its messages with it."""
        self._accepted.pop(run, None)

    def examine(self, run: Run, left: Sequence[Message]) -> Iterator[str]:
        """Yield what is wrong with the effects of the messages of *run*, of which those in *left* were not read."""
        is_over = run.memory.status in FINISHED
        unread = {name for message in left if (name := _tag_of(decode_message(message.body))) is not None}
        if left and not is_over:
            yield f"{len(left)} messages are left in the inbox, of the kinds {sorted({each.kind for each in left})}"
        effects = _effects(run)
        last: dict[str, tuple[int, Accepted]] = {}
        for message in self._accepted.get(run.id, {}).values():
            found = effects.get(message.tag, [])
            is_late = is_over and message.kind != "finish" and message.tag in unread
            if not found and not is_late and not _is_needless(message, run):
                yield f"{message} was accepted, and has no effect"
            if len(found) > 1 and (message.kind == "signal" or not self._lies):
                yield f"{message} has {len(found)} effects, at {found}"
            if found and message.is_remote and (run.id, message.tag) not in self._direct:
                before = last.get(message.sender)
                if before is not None and before[0] > found[0]:
                    yield f"{message} was accepted after {before[1]}, and has its effect before it"
                last[message.sender] = (found[0], message)


def _effects(run: Run) -> dict[str, list[int]]:
    """Return the positions of the effects of messages in the log, by tag."""
    found: dict[str, list[int]] = {}
    for event in run.log():
        if (tag := _tag_of(event)) is not None:
            found.setdefault(tag, []).append(event.seq)
    return found


def _tag_of(event: ev.AnyEvent) -> str | None:
    if isinstance(event, ev.SignalReceived | ev.SignalRefused):
        return event.key
    return event.by if isinstance(event, _SAYS_WHO) else None


def _is_needless(message: Accepted, run: Run) -> bool:
    """Return whether *message* came when the run had no use for it: it was over, or it was ending already."""
    if message.kind == "finish":
        return run.memory.is_ending or run.memory.cancelled is not None
    return message.kind == "cancel" and run.memory.status in FINISHED
