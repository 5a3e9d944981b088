"""
A user's function, inspected once: its parameters, their defaults, and whether it is a coroutine function.

Parameters without a default take the values that arrive.  Parameters with a default are constants, or
references that are filled in when the function runs.

    >>> def charge(order, amount, currency="EUR", limit=context("limit", default=100)): ...
    >>> Function.of(charge).required
    ('order', 'amount')
    >>> Function.of(charge).bind({"amount": 5}).required
    ('order',)
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weft.core.functions.annotations import hints_of, made_by
from weft.core.functions.code_identity import fingerprint, hidden_state
from weft.core.functions.identity import canonical, digest
from weft.core.functions.offered import offer
from weft.core.functions.references import Context, InTransaction, Read, Reference, context
from weft.errors import InvalidComponent, NoRun, UnidentifiableValue, WrongArity

__all__ = ["Function", "context", "is_builtin"]

_BUILTIN = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
)
_IMMUTABLE = 1 << 8
"""The flag of classes that cannot be changed: those of the interpreter."""


@dataclass(frozen=True, eq=False)
class Function:
    """How a callable is called by a run."""

    call: Callable[..., Any]
    required: tuple[str, ...]
    """The parameters that take the arriving values, in order."""
    variadic: bool
    """Whether it takes any number of values: ``*args``, or a builtin that does not tell or need not have any."""
    by_keyword: bool = False
    """Whether arriving values go by name, because a bound constant comes before one of them."""
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    references: Mapping[str, Reference] = field(default_factory=dict[str, Reference])
    is_async: bool = False
    unfilled: tuple[str, ...] = ()
    """Keyword-only parameters without a default, which must be bound before it can run."""
    opened: tuple[str, ...] = ()
    """Parameters that take arriving values although they need not: they have a default, or go by keyword only."""

    @staticmethod
    def of(call: Callable[..., Any]) -> Function:
        """
        Read the signature of *call*, and offer it, so that a stored definition may name it.

        Raises:
            InvalidComponent: *call* cannot be called.
            WrongArity: it has parameters that a run could never fill.
        """
        if not callable(call):
            hint = f"; a name is given by keyword: name={call!r}" if isinstance(call, str) else ""
            raise InvalidComponent(f"expected a function, got {call!r}{hint}")
        inner = Function.inside(call)
        if inner is not None:
            return inner
        if not getattr(type(call), "is_function", True):  # a fragment says so
            raise InvalidComponent(f"expected a function, got {call!r}; it can stand beside >> as it is")
        offer(call)
        try:
            parameters = inspect.signature(call).parameters.values()
        except (ValueError, TypeError):  # a builtin that does not tell its signature
            return Function(call, (), variadic=True)
        return _read(call, list(parameters))

    @staticmethod
    def inside(component: object) -> Function | None:
        """Return the function that *component* was made of; None if it is not a component, or has several."""
        for field_name in ("function", "then"):
            inner = getattr(component, field_name, None)
            if isinstance(inner, Function):
                return inner
        return None

    @property
    def name(self) -> str | None:
        """The function's own name, or None where it has none worth showing."""
        call = self.call
        while isinstance(call, functools.partial):
            call = call.func
        name = getattr(call, "__name__", None)
        return name if isinstance(name, str) and name.isidentifier() else None

    @property
    def reads(self) -> dict[str, Read]:
        """The parameters that read another component."""
        return {name: ref for name, ref in self.references.items() if isinstance(ref, Read)}

    @property
    def contexts(self) -> dict[str, Context]:
        """The parameters that read the run's context."""
        return {name: ref for name, ref in self.references.items() if isinstance(ref, Context)}

    @property
    def transaction(self) -> str:
        """The parameter that takes the transaction in which its completion is stored; empty if none does."""
        found = [name for name, ref in self.references.items() if isinstance(ref, InTransaction)]
        if len(found) > 1:
            raise WrongArity(f"{self.label} asks for its transaction twice: {', '.join(found)}; one is enough")
        return found[0] if found else ""

    def takes(self, count: int) -> bool:
        """Whether *count* arriving values fit."""
        return count == len(self.required) or (self.variadic and count >= len(self.required))

    def bind(self, constants: Mapping[str, Any]) -> Function:
        """Return this function with *constants* in place of parameters of these names."""
        if not constants:
            return self
        for value in constants.values():
            _offer_bound(value)
        try:
            known = inspect.signature(self.call).parameters
        except (ValueError, TypeError):  # a builtin that does not tell its signature takes what it is given
            return replace(self, constants={**self.constants, **constants})
        takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
        for name in constants:
            p = known.get(name)
            if p is None and takes_any:
                continue
            if p is None or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
                raise WrongArity(f"{self.label} has no parameter {name!r} to bind; it has ({', '.join(known)})")
        required = tuple(name for name in self.required if name not in constants)
        gap = required != self.required[: len(required)]
        if self.variadic and len(required) < len(self.required):
            raise WrongArity(f"{self.label} takes *args, so only trailing parameters can be bound")
        bound = {n: v for n, v in constants.items() if not isinstance(v, Reference)}
        refs = {n: v for n, v in constants.items() if isinstance(v, Reference)}
        return replace(
            self,
            required=required,
            unfilled=tuple(name for name in self.unfilled if name not in constants),
            by_keyword=self.by_keyword or gap,
            constants={**self.constants, **bound},
            references={**{n: r for n, r in self.references.items() if n not in constants}, **refs},
        )

    def taking(self, names: tuple[str, ...]) -> Function:
        """Return this function with the parameters *names*, which have defaults, open to values that arrive."""
        if not names:
            return self
        if self.variadic:
            raise WrongArity(f"{self.label} takes *args, so {names[0]!r} can only be a constant")
        order = inspect.signature(self.call).parameters
        return replace(
            self,
            required=tuple(name for name in order if name in self.required or name in names),
            by_keyword=True,
            constants={n: v for n, v in self.constants.items() if n not in names},
            references={n: r for n, r in self.references.items() if n not in names},
            unfilled=tuple(name for name in self.unfilled if name not in names),
            opened=tuple(name for name in order if name in self.opened or name in names),
        )

    def renamed(self, names: Mapping[str, str]) -> Function:
        """Return this function with the targets of its reads renamed."""
        moved = {
            parameter: type(ref)(**{**_fields(ref), "target": names.get(ref.target, ref.target)})
            for parameter, ref in self.reads.items()
        }
        return replace(self, references={**self.references, **moved}) if moved else self

    def plainly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function outside of any run: contexts take their defaults, reads say that there is no run."""
        if not self.references and not self.constants:
            return self.call(*args, **kwargs)
        if self.by_keyword:  # a bound constant comes before one of the values
            kwargs = {**dict(zip(self.required, args, strict=False)), **kwargs}
            args = args[len(self.required) :]
        given = inspect.signature(self.call).bind_partial(*args, **kwargs).arguments
        filled = {name: value for name, value in self.constants.items() if name not in given}
        for name, ref in self.references.items():
            if name in given:
                continue
            if not isinstance(ref, Context) or ref.is_required:
                word = "transaction" if isinstance(ref, InTransaction) else getattr(ref, "word", "")
                what = f"context {ref.key!r}" if isinstance(ref, Context) else f"{word}(...)"
                raise NoRun(f"{self.label} reads {what} and there is no run; pass {name}= to call it directly")
            filled[name] = ref.fallback()
        return self.call(*args, **{**filled, **kwargs})

    @property
    def label(self) -> str:
        """The name of this function in errors."""
        return f"{getattr(self.call, '__qualname__', repr(self.call))}()"

    def held(self) -> list[object]:
        """Return the objects it is called with, or closes over, that its identity does not cover."""
        defaults = [getattr(self.references[name], "default", None) for name in sorted(self.references)]
        constants = [self.constants[name] for name in sorted(self.constants)]
        return [found for value in (self.call, *constants, *defaults) for found in hidden_state(value)]

    @functools.cached_property
    def identity(self) -> bytes:
        """The hash of the code, bound constants and references."""
        try:
            constants = canonical(dict(self.constants), f"constants of {self.label}")
        except UnidentifiableValue:
            constants = ",".join(sorted(self.constants)).encode()
        references = [digest(name.encode(), _identity(self.references[name])) for name in sorted(self.references)]
        opened = [digest(b"opened", *(name.encode() for name in self.opened))] if self.opened else []
        return digest(fingerprint(self.call), constants, *references, *opened)

    @functools.cached_property
    def hints(self) -> Mapping[str, Any]:
        """The types of its parameters and of ``return``, as far as they are annotated."""
        return hints_of(self.call)

    def taken(self, count: int) -> list[tuple[str, Any]]:
        """Return the names of the parameters that take *count* arriving values, as far as known, and their types."""
        taken = [(name, self.hints.get(name, Any)) for name in self.required]
        if self.variadic and len(taken) < count and (rest := _rest(self.call)) is not None:
            taken += [(f"*{rest}", self.hints.get(rest, Any))] * (count - len(taken))
        return taken

    @functools.cached_property
    def makes(self) -> Any:
        """The type of the value that a run gets from it."""
        return made_by(self.call, self.hints)


def _rest(call: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes any number of values."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (ValueError, TypeError):  # a builtin that does not tell its signature
        return None
    return next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)


def _offer_bound(value: object) -> None:
    """Offer the callables in a constant, or in the default of a reference."""
    offer(getattr(value, "default", None) if isinstance(value, Reference) else value)


def _identity(ref: Reference) -> bytes:
    """Return what *ref* refers to; a default that has no canonical form counts by its code, or as nothing."""
    default = getattr(ref, "default", None)
    plain = {name: getattr(ref, name) for name in ref.__struct_fields__ if name != "default"}
    try:
        shown = fingerprint(default) if callable(default) else canonical(default)
    except UnidentifiableValue:
        shown = b""
    return digest(type(ref).__name__.encode(), canonical(plain), shown)


def _fields(ref: Read) -> dict[str, Any]:
    return {name: getattr(ref, name) for name in ref.__struct_fields__}


def _read(call: Callable[..., Any], parameters: list[inspect.Parameter]) -> Function:
    required: list[str] = []
    unfilled: list[str] = []
    references: dict[str, Reference] = {}
    variadic = optional = False
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            variadic = True
            if optional:
                raise WrongArity(f"{call!r}: put parameters with a default after *{p.name}, they are constants")
        elif isinstance(p.default, Reference):
            if p.kind is p.POSITIONAL_ONLY:
                raise WrongArity(f"{call!r}: {p.name!r} reads the run, so it cannot be positional-only")
            references[p.name] = p.default
            _offer_bound(p.default)
            optional = optional or p.kind is not p.KEYWORD_ONLY
        elif p.default is not p.empty:
            optional = optional or p.kind is not p.KEYWORD_ONLY
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            required.append(p.name)
        elif p.kind is p.KEYWORD_ONLY:
            unfilled.append(p.name)
    if not required and is_builtin(call) and any(p.kind is p.POSITIONAL_ONLY for p in parameters):
        variadic = (
            True  # bool, float, list: whether one tells that it could do without depends on the version of Python
        )
    return Function(
        call, tuple(required), variadic, references=references, is_async=_is_async(call), unfilled=tuple(unfilled)
    )


def is_builtin(call: object) -> bool:
    """
    Whether *call* is part of the interpreter: what it tells of its parameters depends on the version of Python.

    >>> [is_builtin(call) for call in (len, bool, dict.items, "".join, Function.of, Function)]
    [True, True, True, True, False, False]
    """
    return isinstance(call, _BUILTIN) or (isinstance(call, type) and bool(call.__flags__ & _IMMUTABLE))


def _is_async(call: Any) -> bool:
    while isinstance(call, functools.partial):
        call = call.func
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
