"""
The result of a stateful component: a state change, or "ignored".

A component decides in a generator (a :data:`Decision`): it yields each :class:`Call` of a user's function and receives
the result, so the same code serves plain functions and coroutines, and a test can send the results by hand.

    >>> def decide(state, event):
    ...     allowed = yield Call("guard", (event,))
    ...     return StateChange(state + 1) if allowed else Ignored()
    >>> one = as_function(decide, {"guard": Function.of(lambda event: event == "go")})
    >>> one.call(1, "go"), one.call(1, "stop")
    (StateChange(state=2, emitted=(), fired=(), done=False, key=None), Ignored())
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import msgspec

from weft.core.events import StateCarried, StateChanged
from weft.core.functions.function import Function
from weft.core.functions.references import MISSING


class StateChange(msgspec.Struct, frozen=True):
    """The next state and its effects; the fields are those of the event that records it."""

    state: Any
    emitted: tuple[Any, ...] = ()
    fired: tuple[str, ...] = ()
    done: bool = False
    key: Any = None


class Ignored(msgspec.Struct, frozen=True):
    """The decision that what arrived changes nothing here."""


def state_made(result: object) -> Any:
    """Return the state that the *result* of a component leads to; MISSING if it has ignored what arrived."""
    return result.state if isinstance(result, StateChange) else MISSING if isinstance(result, Ignored) else result


def facts_made(result: object) -> Any:
    """Return the facts that the *result* of a component brings, as a list; MISSING if it has ignored what arrived."""
    if isinstance(result, StateChange):
        return list(result.emitted)
    return MISSING if isinstance(result, Ignored) else result


class Call(msgspec.Struct, frozen=True):
    """Call the function that is called *part*, with *args*."""

    part: str
    args: tuple[Any, ...]


Decision: TypeAlias = Generator[Call, Any, StateChange | Ignored]


class States:
    """The states of a component that keeps one per key, as the function that decides sees them."""

    __slots__ = ("_changes",)

    def __init__(self, changes: Mapping[Any, StateChanged | StateCarried]) -> None:
        self._changes = changes

    def of(self, key: Any, begin: Callable[[], Any]) -> tuple[Any, bool]:
        """Return the state of *key*, or what *begin* makes, and whether it is complete."""
        last = self._changes.get(key)
        return (begin(), False) if last is None else (last.state, last.done)

    def __repr__(self) -> str:
        return f"States of {len(self._changes)} keys"


# -- running a decision --------------------------------------------------------------------------


class DecisionCall:
    """Runs a decision, and makes the calls that it yields.  Not a closure, so that it can go to another process."""

    __slots__ = ("_decide", "_functions", "_given")

    def __init__(self, decide: Callable[[Any, Any], Decision], functions: Mapping[str, Function]) -> None:
        self._decide, self._functions = decide, dict(functions)
        self._given = {
            part: [(name, f"{part}:{name}") for name in function.references] for part, function in functions.items()
        }

    def __call__(self, state: Any, value: Any, **filled: Any) -> Any:
        """Return the result of the decision."""
        decision = self._decide(state, value)
        answer: Any = None
        while True:
            try:
                wanted = decision.send(answer)
            except StopIteration as end:
                return end.value
            answer = self._call(wanted, filled)

    async def waiting(self, state: Any, value: Any, **filled: Any) -> Any:
        """Return the result of the decision, where some functions are coroutine functions."""
        decision = self._decide(state, value)
        answer: Any = None
        while True:
            try:
                wanted = decision.send(answer)
            except StopIteration as end:
                return end.value
            answer = self._call(wanted, filled)
            answer = await answer if inspect.isawaitable(answer) else answer

    def _call(self, wanted: Call, filled: Mapping[str, Any]) -> Any:
        own = {name: filled[long] for name, long in self._given[wanted.part]}
        return call_with(self._functions[wanted.part], wanted.args, own)


def as_function(decide: Callable[[Any, Any], Decision], functions: Mapping[str, Function]) -> Function:
    """Return one function of state and value that runs *decide*, and takes the other arguments of all *functions*."""
    references = {
        f"{part}:{name}": ref for part, function in functions.items() for name, ref in function.references.items()
    }
    is_async = any(function.is_async for function in functions.values())
    run = DecisionCall(decide, functions)
    call = run.waiting if is_async else run
    return Function(call, ("state", "value"), variadic=False, references=references, is_async=is_async)


def adapted(function: Function, pick: Callable[..., tuple[Any, ...]]) -> Function:
    """Return a function that calls *function* with what *pick* makes of the values that arrive."""
    call = partial(_adapt, function, pick)
    return replace(function, call=call, required=(), variadic=True, by_keyword=False, constants={})


def _adapt(function: Function, pick: Callable[..., tuple[Any, ...]], *values: Any, **given: Any) -> Any:
    return call_with(function, pick(*values), given)


def call_with(function: Function, args: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
    """Call *function*; one without parameters is only triggered."""
    if not function.required and not function.variadic:
        args = ()
    named = {**function.constants, **given}
    if function.by_keyword:
        named.update(zip(function.required, args, strict=True))
        args = ()
    return function.call(*args, **named)
