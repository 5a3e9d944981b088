"""
Continues a run as a new one: its history has grown long, and its state is all that the future needs.

    old: idle ──────────────────────┐                 ┌──► completed, its record names the new run
                                    ├─ one transaction┤
    new: (not there) ───────────────┘                 └──► idle, with the states, the policies, the seen keys, the
                                                           signals that no wait has taken, and the inbox

Invariants: both runs are written together or not at all; nothing is in flight in the old run, and it accepts nothing
from the first check to the end, so nothing can fall between the two.  A message that is posted for the old run, before
or after, is one for the new run.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.fold.memory import Memory
from weft.core.run.run import Run


def next_id(run: str) -> str:
    """
    Return the id of the run that continues *run*, if no other is given.

    >>> next_id("w"), next_id("w~2"), next_id("w~9")
    ('w~2', 'w~3', 'w~10')
    """
    found = re.fullmatch(r"(.*)~(\d+)", run, re.DOTALL)
    return f"{run}~2" if found is None else f"{found[1]}~{int(found[2]) + 1}"


def begun_from(old: Run, new_id: str, by: str | None) -> Run:
    """Return a run that begins with the workflow, the states, the policies, the seen keys and the signals of *old*."""
    memory = old.memory
    options = getattr(memory.log[0], "options", None)
    new = Run(memory.workflow, id=new_id, context=old.context, options=options, by=by)
    _add(new, ev.ContinuedFrom(0, old.id, tuple(memory.keys or ()), tuple(memory.signal_keys or ())))
    for event in _states(memory):
        _add(new, event)
    if memory.rules is not None:
        _add(new, ev.PolicyChanged(0, memory.rules, by))
    kept = [signal for signals in (memory.signals or {}).values() for signal in signals]
    for signal in sorted(kept, key=lambda each: each.seq):
        _add(new, signal)
    return new


def _states(memory: Memory) -> list[ev.StateCarried]:
    """Return the last values of the components that keep state, or that others read."""
    found: list[ev.StateCarried] = []
    for name, made in memory.produced.items():
        if len(made):
            last: Any = made[-1]
            found.append(ev.StateCarried(0, name, last.value, None, _is_done(last)))
    for name, by_key in (memory.partitions or {}).items():
        found += [ev.StateCarried(0, name, last.state, key, _is_done(last)) for key, last in by_key.items()]
    return found


def _is_done(last: Any) -> bool:
    return bool(getattr(last, "done", False))


def _add(run: Run, event: Any) -> None:
    record(run.memory, replace(event, seq=len(run.memory.log) + 1))
