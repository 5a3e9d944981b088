"""
Functions that run before and after a component, at every attempt.

A hook is part of the attempt: it runs where the component runs, and if it raises, the attempt fails.  Its
argument is the object that ``weft.current()`` returns, with which it may add to the workflow of the run:

    >>> from weft import Workflow, step
    >>> seen = []
    >>> double = step(lambda x: x * 2, name="double")
    >>> hooked = double.before(lambda call: seen.append(call.inputs)).after(lambda call, value: seen.append(value))
    >>> Workflow("w", hooked).run(21).output, seen
    (42, [(21,), 42])

Like policies, hooks are separate from the graph and are not part of a workflow's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any, cast

import msgspec

from weft.core.functions.current import current
from weft.core.functions.function import Function
from weft.core.functions.references import MISSING
from weft.errors import InvalidComponent

Produced = Callable[[Any], Any]
"""A function of the result of a call that returns what the component has produced; MISSING if that is nothing."""


class Hooks(msgspec.Struct, frozen=True):
    """The functions that run around a component, in the order they were written."""

    before: tuple[Function, ...] = ()
    after: tuple[Function, ...] = ()
    parts: tuple[tuple[str, Hooks], ...] = ()
    """The hooks around a part of the component, by its name."""

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.parts)

    def and_before(self, more: tuple[Function, ...], part: str | None = None) -> Hooks:
        """Return these hooks with *more* that run before the component, or a *part* of it."""
        if part is None:
            return Hooks((*self.before, *more), self.after, self.parts)
        return self._with_part(part, self.around_part(part).and_before(more))

    def and_after(self, more: tuple[Function, ...], part: str | None = None) -> Hooks:
        """Return these hooks with *more* that run after the component, or a *part* of it."""
        if part is None:
            return Hooks(self.before, (*self.after, *more), self.parts)
        return self._with_part(part, self.around_part(part).and_after(more))

    def around_part(self, part: str) -> Hooks:
        """Return the hooks around *part* alone."""
        return dict(self.parts).get(part, NO_HOOKS)

    def _with_part(self, part: str, hooks: Hooks) -> Hooks:
        return Hooks(self.before, self.after, tuple({**dict(self.parts), part: hooks}.items()))

    def around(
        self, call: Callable[..., Any], *, is_async: bool, component: str, produced: Produced | None = None
    ) -> Callable[..., Any]:
        """
        Return *call* with these hooks around it.

        Args:
            produced: turns the result of *call* into the value that ``after`` hooks get.

        Raises:
            InvalidComponent: a hook that is a coroutine function, around a component that is not.
        """
        if is_async:
            return _HookedCoroutine(call, self, produced)
        for hook in (*self.before, *self.after):
            if hook.is_async:
                raise InvalidComponent(
                    f"{hook.label} is a coroutine function and {component!r} is not: nothing would wait for the hook; "
                    "make it a plain function, or the component a coroutine function"
                )
        return _Hooked(call, self, produced)


NO_HOOKS = Hooks()


def as_hook(call: Callable[..., Any], takes: int) -> Function:
    """
    Return *call* as a hook that is given *takes* values.

    Raises:
        InvalidComponent: it does not take them.
    """
    hook = Function.of(call)
    if not hook.takes(takes) or hook.references or hook.unfilled:
        wanted = "the call" if takes == 1 else "the call and the value"
        raise InvalidComponent(f"{hook.label} cannot be a hook: it has to take {wanted}, and nothing else")
    return hook


class _Hooked:
    """A plain function between its hooks."""

    __slots__ = ("call", "hooks", "produced")

    def __init__(self, call: Callable[..., Any], hooks: Hooks, produced: Produced | None) -> None:
        self.call, self.hooks, self.produced = call, hooks, produced

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        now = current()
        for hook in self.hooks.before:
            hook.call(now)
        value = self.call(*args, **kwargs)
        shown = value if self.produced is None else self.produced(value)
        for hook in () if shown is MISSING else self.hooks.after:
            hook.call(now, shown)
        return value


class _HookedCoroutine(_Hooked):
    """A coroutine function between its hooks, which may be coroutine functions too."""

    __slots__ = ()

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        now = current()
        for hook in self.hooks.before:
            done = hook.call(now)
            if hook.is_async:
                await done
        value = self.call(*args, **kwargs)
        if type(value) is CoroutineType:
            value = await cast("Coroutine[Any, Any, Any]", value)
        shown = value if self.produced is None else self.produced(value)
        for hook in () if shown is MISSING else self.hooks.after:
            done = hook.call(now, shown)
            if hook.is_async:
                await done
        return value


def in_place_of(call: Callable[..., Any], other: Function) -> Callable[..., Any]:
    """Return *other*, which runs in place of *call*, between the hooks that are around that."""
    if not isinstance(call, _Hooked):
        return other.call
    waits = other.is_async or isinstance(call, _HookedCoroutine)
    return (_HookedCoroutine if waits else _Hooked)(other.call, call.hooks, call.produced)
