"""
Symbols, which stand for values while a graph is drawn.

Inside ``@workflow`` no step runs: a call of a component returns a :class:`Symbol`.  It can be passed to other
components and taken apart with ``value["key"]``, ``value.attribute`` and, if the annotation says how many items there
are, by unpacking.  Any other use needs the actual value, and is refused with an error that says what to do instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol, cast

import msgspec

from weft.core.functions.annotations import parts_of
from weft.core.functions.identity import canonical
from weft.errors import TracingError, UnidentifiableValue, an


class Tracer(Protocol):
    """The drawing in progress, as components and symbols see it."""

    name: str
    is_open: bool

    def draw(self, thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Draw the call of *thing*, a component or a workflow."""
        ...

    def part(self, symbol: Symbol, key: Any, *, attribute: bool = False, kind: Any = Any) -> Symbol:
        """Draw a step that takes *key* out of what *symbol* stands for."""
        ...


drawing: ContextVar[Tracer | None] = ContextVar("weft_drawing", default=None)


def tracing() -> Tracer | None:
    """Return what draws a graph here, if one is being drawn."""
    tracer = drawing.get()
    return tracer if tracer is not None and tracer.is_open else None


class Origin(msgspec.Struct, eq=False):
    """Where a symbol comes from."""

    tracer: Tracer
    tail: Any
    """The component that makes the value, or INPUT."""
    label: str
    """Its name in errors."""
    kind: Any
    """The type of the value, as far as it is known."""
    line: str


class Symbol:
    """A value that will be there when the workflow runs."""

    __slots__ = ("_weft",)

    def __init__(self, origin: Origin) -> None:
        object.__setattr__(self, "_weft", origin)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<the value of {origin_of(self).label} in workflow {origin_of(self).tracer.name!r}>"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Symbol):
            raise refusal(self, "an index that is itself traced", "take the item inside a step that gets both")
        try:
            canonical(key)
        except UnidentifiableValue:
            raise refusal(self, f"an index that is {an(type(key).__name__)}", "take it inside a step") from None
        return origin_of(self).tracer.part(living(self), key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return origin_of(self).tracer.part(living(self), name, attribute=True)

    def __iter__(self) -> Iterator[Any]:
        origin = origin_of(living(self))
        parts = parts_of(origin.kind)
        if parts is None:
            raise refusal(
                self,
                "a loop over it, or unpacking it",
                "for each element write each(body)(values); to unpack it, let the annotation say how many there are "
                "(-> tuple[A, B]), or take them by index: value[0], value[1]",
            )
        return iter([origin.tracer.part(self, i, kind=kind) for i, kind in enumerate(parts)])


def origin_of(symbol: Symbol) -> Origin:
    """Return where *symbol* comes from."""
    return cast("Origin", object.__getattribute__(symbol, "_weft"))


def living(symbol: Symbol) -> Symbol:
    """Return *symbol*, if the graph it belongs to is the one being drawn here."""
    origin, here = origin_of(symbol), tracing()
    if here is origin.tracer:
        return symbol
    where = "outside of it" if here is None else f"in workflow {here.name!r}"
    raise TracingError(
        f"{symbol!r}, drawn at {origin.line}, was used {where} ({user_line()}); it stands for a value only while its "
        "own workflow is drawn: return it from there, or hand it over as an argument"
    )


def refusal(symbol: Symbol, what: str, instead: str) -> TracingError:
    """Return the error that says *what* was tried with *symbol*, where, and what to do *instead*."""
    living(symbol)
    origin = origin_of(symbol)
    return TracingError(
        f"{what} needs the value of {origin.label} (drawn at {origin.line}) while workflow {origin.tracer.name!r} "
        f"is only being drawn, at {user_line()}; {instead}"
    )


def user_line() -> str:
    """Return the line of the user's code that is running, as ``file:line``."""
    frame: Any = inspect.currentframe()  # inspect.stack() would read source files
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("weft.core."):
        frame = frame.f_back
    file = str(frame.f_code.co_filename).replace("\\", "/").rpartition("/")[2]
    return f"{file}:{frame.f_lineno}"


def contains_symbol(value: Any) -> Symbol | None:
    """Return a symbol inside *value*, a builtin collection."""
    if isinstance(value, Symbol):
        return value
    items: Any = ()
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("Any", value)
    elif isinstance(value, Mapping):
        items = [*cast("Any", value).keys(), *cast("Any", value).values()]
    return next((found for item in items if (found := contains_symbol(item)) is not None), None)


# -- what needs the value ------------------------------------------------------------------------

_STEP: Final = "do it inside a step, and call that step here"
_REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "bool": (
        "`if`, `while`, `and`, `or` or `not`",
        "let a condition decide, which gates what follows it: work(is_large(x)); or react with a rule, or in a step",
    ),
    "len": ("len()", _STEP),
    "contains": ("`in`", _STEP),
    "str": ("str()", _STEP),
    "format": ("an f-string", _STEP),
    "bytes": ("bytes()", _STEP),
    "int": ("int()", _STEP),
    "float": ("float()", _STEP),
    "complex": ("complex()", _STEP),
    "index": ("its use as an index", _STEP),
    "round": ("round()", _STEP),
    "abs": ("abs()", _STEP),
    "call": ("calling it", "call a method inside a step, and call that step here"),
    "await": ("await", "leave it out: a step that is `async def` is called like any other here"),
    "aiter": ("`async for`", "for each element write each(body)(values)"),
    "reversed": ("reversed()", _STEP),
    "enter": ("`with`", "open it inside the step that uses it"),
    "exit": ("`with`", "open it inside the step that uses it"),
    "aenter": ("`async with`", "open it inside the step that uses it"),
    "aexit": ("`async with`", "open it inside the step that uses it"),
    **dict.fromkeys(("copy", "deepcopy"), ("a copy", "hand it over as it is: what a step returns is its own")),
    **dict.fromkeys(("reduce", "reduce_ex"), ("pickle", _STEP)),
    **dict.fromkeys(("trunc", "floor", "ceil"), ("rounding", _STEP)),
    "setattr": ("setting an attribute", "let a step return the changed value"),
    "delattr": ("deleting an attribute", "let a step return the changed value"),
    "setitem": ("setting an item", "let a step return the changed value"),
    "delitem": ("deleting an item", "let a step return the changed value"),
    "rshift": ("`>>`", "inside @workflow call what should follow, with this value: work(value)"),
    "rrshift": ("`>>`", "inside @workflow call what should follow, with this value: work(value)"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), ("a comparison", "ask a condition, or compare in a step")),
    **dict.fromkeys(
        [
            side + word
            for word in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or")
            for side in ("", "r")
        ]
        + ["xor", "rxor", "lshift", "rlshift", "neg", "pos", "invert"],
        ("arithmetic", _STEP),
    ),
}


def _refuse(what: str, instead: str) -> Callable[..., Any]:
    def method(self: Symbol, *_: Any, **__: Any) -> Any:
        raise refusal(self, what, instead)

    return method


for _name, (_what, _instead) in _REFUSED.items():
    setattr(Symbol, f"__{_name}__", _refuse(_what, _instead))
