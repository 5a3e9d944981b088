"""
Finds components that change their arguments.

All components that receive a value receive the same object, and the log holds it too.  With ``check_arguments`` an
attempt gets copies, which are compared with the originals when it has ended: an attempt that has changed one fails.
So the component that is named is the one that did it, whatever runs at the same time.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Coroutine, Iterator, Mapping
from types import CoroutineType
from typing import Any, cast

from weft.core.run.runnable import Runnable
from weft.errors import ChangedArgument, UnencodableValue
from weft.log.class_registry import form_of
from weft.log.module_names import kind_of
from weft.log.value_encoder import PLAIN, encode_value


class CheckedRunnable(Runnable, eq=False):
    """A runnable whose arguments are copied, and compared after the call."""

    def call(self) -> Any:
        """
        Call the function.

        Raises:
            ChangedArgument: it has changed an argument.
        """
        copies = [_Copied(name, value) for name, value in _arguments(self)]
        by_id = {id(copied.value): copied.copy for copied in copies}
        args, kwargs = self.args, self.kwargs
        self.args = tuple(by_id.get(id(value), value) for value in args)
        self.kwargs = {name: by_id.get(id(value), value) for name, value in kwargs.items()}
        try:
            result = super().call()
        except BaseException as error:
            _note(self.component, copies, error)
            raise
        finally:
            self.args, self.kwargs = args, kwargs
        if type(result) is CoroutineType:
            return _awaited(self.component, copies, cast("Coroutine[Any, Any, Any]", result))
        _check(self.component, copies)
        return result


def checked(runnable: Runnable) -> CheckedRunnable:
    """Return *runnable* as one whose arguments are checked."""
    return CheckedRunnable(**{name: getattr(runnable, name) for name in runnable.__struct_fields__})


async def _awaited(component: str, copies: list[_Copied], coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        result = await coroutine
    except BaseException as error:
        _note(component, copies, error)
        raise
    _check(component, copies)
    return result


def _arguments(runnable: Runnable) -> Iterator[tuple[str, Any]]:
    """Yield the arguments that are data, with their names; what comes from the context is not part of the run."""
    arguments = runnable.node.arguments
    contexts = () if arguments is None else {parameter for parameter, _ in arguments.contexts}
    given = [*zip(_names(runnable), runnable.args, strict=False), *runnable.kwargs.items()]
    for name, value in given:
        if name not in contexts and kind_of(value) not in PLAIN:
            try:
                encode_value(value)
            except UnencodableValue:
                continue
            yield name, value


def _names(runnable: Runnable) -> list[str]:
    """Return the names of the positional parameters, as far as they are known."""
    try:
        known = list(inspect.signature(runnable.node.call).parameters)
    except (TypeError, ValueError):
        known = []
    return [*known, *(f"argument {place}" for place in range(len(known) + 1, len(runnable.args) + 1))]


class _Copied:
    """One argument, its copy, and how the copy was written before the call."""

    __slots__ = ("before", "copy", "name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value
        try:
            self.copy = copy.deepcopy(value)
        except Exception:  # noqa: BLE001 - a value that cannot be copied is compared with what it was
            self.copy = value
        self.before = encode_value(self.copy)

    def change(self) -> str:
        """Return where the copy was changed; empty if it was not."""
        if _written(self.copy) == self.before:
            return ""
        return self.name if self.copy is self.value else self.name + _difference(self.value, self.copy)


def _check(component: str, copies: list[_Copied]) -> None:
    for copied in copies:
        change = copied.change()
        if change:
            raise ChangedArgument(component, change)


def _note(component: str, copies: list[_Copied], error: BaseException) -> None:
    """Add a note to *error*, which the component has raised, that it has changed an argument."""
    for copied in copies:
        change = copied.change()
        if change:
            error.add_note(str(ChangedArgument(component, change)))
            return


def _written(value: Any) -> bytes | None:
    try:
        return encode_value(value)
    except UnencodableValue:  # it is not data any more
        return None


def _difference(one: Any, other: Any) -> str:
    """Return the path to the innermost part in which two values differ."""
    if kind_of(one) is kind_of(other):
        inner, beside = _parts(one), _parts(other)
        if inner is not None and beside is not None and inner.keys() == beside.keys():
            for path, part in inner.items():
                if _written(part) != _written(beside[path]):
                    return path + _difference(part, beside[path])
    return ""


def _parts(value: Any) -> Mapping[str, Any] | None:
    """Return the parts of *value* by the path to each; None if it has none."""
    kind: Any = kind_of(value)
    if kind in (list, tuple):
        return {f"[{place}]": part for place, part in enumerate(value)}
    if dict in kind.__mro__:
        return {f"[{key!r}]": part for key, part in value.items()}
    form = form_of(kind)
    return None if form is None else {f".{name}": part for name, part in form.apart(value).items()}
