"""
The answers that a fallback may return, and their effect.

    >>> RetryWith(model="small")
    RetryWith(model='small')

A fallback is called once, after the last retry, with the runnable and the error.  It completes the component
with a value, requests one more attempt with other context, or one with another function on the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CoroutineType
from typing import Any

import msgspec

from weft.core.run.runnable import Runnable
from weft.errors import InvalidFallback


class Value(msgspec.Struct, frozen=True):
    """The answer of a fallback that completes the component with *value*."""

    value: Any


class RetryWith:
    """The answer of a fallback that requests one more attempt with other context: ``RetryWith(model="small")``."""

    def __init__(self, **context: Any) -> None:
        self.context = context

    def __repr__(self) -> str:
        return f"RetryWith({', '.join(f'{key}={value!r}' for key, value in self.context.items())})"


def ask(fallback: Callable[..., Any], runnable: Runnable, error: BaseException) -> Value | Runnable:
    """
    Return the answer of *fallback* for *runnable*, which failed with *error*: a value, or a runnable to try.

    Raises:
        InvalidFallback: it returned something else.
    """
    answer = fallback(runnable, error)
    match answer:
        case Value():
            once: Any = answer.value
            return Value(list(once)) if isinstance(answer.value, Iterator) else answer
        case RetryWith():
            return runnable.with_context(answer.context)
        case Runnable():
            return answer
        case CoroutineType():
            answer.close()
            wrong = f"a coroutine, which nothing awaits; return runnable.using({answer.__qualname__}) from it instead"
        case _:
            wrong = f"{answer!r:.80}; it must return Value(...), RetryWith(...) or runnable.using(function)"
    raise InvalidFallback(f"the fallback of {runnable.component!r} returned {wrong}")
