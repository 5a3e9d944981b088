"""
Checkpoint strategies: when the events of a run become durable.

| strategy | what is written, and when | after a crash |
| --- | --- | --- |
| ``every_cycle`` | the input before it runs; a result before its dependents start | what was in flight runs again |
| ``pipelined`` | the same, while dependents run, up to *depth* events ahead | up to *depth* events run again |
| ``every_n(n)`` | after every *n* completed runnables, and when idle | up to *n* of them run again |
| ``on_complete`` | when nothing is left to do | everything since the run was last idle |
| ``manual`` | when ``checkpoint`` is called | everything since then |

Whatever the strategy, the definition is durable before ``start`` returns, and an event is written once.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from weft.errors import InvalidOption


class Checkpoints(msgspec.Struct, frozen=True):
    """One strategy."""

    name: str
    every: int | None
    """Number of completed runnables that causes a write; None if it does not matter."""
    lag: int | None
    """How many events may not be durable yet when something that depends on them starts; None if any number."""
    at_idle: bool = True
    """Whether to write when nothing is left to do."""
    takes_input_first: bool = False
    """Whether an input is durable before it is acknowledged."""

    def __str__(self) -> str:
        return self.name


DEPTH: Final = 64
"""How many events a pipelined run may be ahead of its store."""

every_cycle: Final = Checkpoints("every_cycle", every=1, lag=0, takes_input_first=True)
on_complete: Final = Checkpoints("on_complete", every=None, lag=None)
manual: Final = Checkpoints("manual", every=None, lag=None, at_idle=False)


def check_count(option: str, given: Any) -> None:
    """
    Refuse *given* unless it is a whole number of at least 1.

    Raises:
        InvalidOption: it is not.
    """
    if type(given) is not int or given < 1:
        raise InvalidOption(f"{option}: use a whole number of at least 1, not {given!r}")


def every_n(n: int) -> Checkpoints:
    """
    Write after every *n* completed runnables, and when nothing is left to do.

    >>> str(every_n(3))
    'every_n(3)'
    """
    check_count("every_n", n)
    return Checkpoints(f"every_n({n})", every=n, lag=None)


def pipelined(depth: int = DEPTH) -> Checkpoints:
    """Write all the time, and let dependents start up to *depth* events ahead of what is durable."""
    check_count("pipelined", depth)
    name = "pipelined" if depth == DEPTH else f"pipelined({depth})"
    return Checkpoints(name, every=1, lag=depth, takes_input_first=True)


_BY_NAME: Final = {"every_cycle": every_cycle, "on_complete": on_complete, "manual": manual, "pipelined": pipelined()}


def _named(name: str) -> Checkpoints | None:
    """Return the strategy with this name, as ``str`` of it says it; None if there is none."""
    kind, _, number = name.removesuffix(")").partition("(")
    if kind in ("every_n", "pipelined") and number.isdigit():
        return every_n(int(number)) if kind == "every_n" else pipelined(int(number))
    return _BY_NAME.get(name)


def as_checkpoints(given: str | Checkpoints) -> Checkpoints:
    """
    Return the strategy that *given*, a name or a strategy, stands for.

    Raises:
        InvalidOption: there is none of this name.
    """
    found = _named(given) if isinstance(given, str) else given
    if not isinstance(found, Checkpoints):
        raise InvalidOption(
            f"checkpoint={given!r}: use {', '.join(map(repr, _BY_NAME))}, every_n(...) or pipelined(depth)"
        )
    return found
