"""
The status of a run, as its log says: whether there is news for on_complete, and whether it needs a person.
"""

from __future__ import annotations

from itertools import islice

from weft.core import events as ev
from weft.core.run.run import Run


def has_news(run: Run) -> bool:
    """Whether *run* has done something since on_complete was last called."""
    memory = run.memory
    since = islice(memory.log, memory.notified, None)
    return bool(memory.received) and any(not isinstance(event, ev.PolicyChanged) for event in since)


def stuck(run: Run) -> str:
    """Return why *run* needs a person; empty if it does not."""
    if not run.memory.letters:
        return ""
    letters = [letter for letter in run.memory.letters.values() if letter.activation.node.undoes]
    if not letters:
        return ""
    event = letters[0].event
    failed = ", ".join(repr(letter.event.component) for letter in letters)
    return (
        f"a saga cannot be undone: {failed} failed for good, {event.error.type}: {event.error.message}; "
        "retry() goes on from there, discard() goes on without it"
    )


def orphans(run: Run) -> tuple[str, ...]:
    """Return the children that are cancelled with *run*; none as long as it is not."""
    memory = run.memory
    if memory.cancelled is None or memory.children is None:
        return ()
    return tuple(child for child, event in memory.children.items() if event.with_parent)
