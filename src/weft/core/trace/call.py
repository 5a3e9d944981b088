"""
Turns one call inside ``@workflow`` into a piece of graph.

Arguments that are symbols become the parents of the component, in the order of its parameters; constants are bound to
it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from weft.core.components.condition import Condition
from weft.core.components.join import Join
from weft.core.components.step import Step
from weft.core.compose.component import Component
from weft.core.compose.symbol import Symbol, contains_symbol, living, origin_of, user_line
from weft.core.functions.function import Function
from weft.errors import TracingError, WrongArity, an

Values = list[Any]
"""Symbols, in the order of the parameters; or one join."""


def is_value(argument: object) -> bool:
    """Whether *argument* stands for something that arrives."""
    return isinstance(argument, Symbol | Join)


def check_arguments(label: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """
    Require that symbols are among the arguments themselves, and belong to the graph that is drawn here.

    Raises:
        TracingError: one is hidden inside a collection, or was drawn elsewhere.
    """
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, Symbol):
            living(argument)
        elif (hidden := contains_symbol(argument)) is not None:
            raise TracingError(
                f"{label} gets {an(type(argument).__name__)} with the value of {origin_of(hidden).label} inside, at "
                f"{user_line()}; make the collection in a step (gather = step(lambda *values: list(values))) and "
                "hand over what it returns"
            )


def called(component: Component, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Component, Values]:
    """
    Return *component* with the constants of a call bound, and the values that reach it.

    Raises:
        TracingError: the component takes no constants, or a step closes over a traced value.
        WrongArity: the arguments do not fit the function.
    """
    check_arguments(component.label, args, kwargs)
    for function in component.functions().values():
        _check_closure(component.label, function)
    if isinstance(component, Step | Condition) and component.function is not None:
        function, values = _bound(component.label, component.function, args, kwargs, spread=component.spread)
        known: Any = cast("Any", component)
        return known if function is component.function else replace(known, function=function), values
    takes = component.arriving().get("") if component.kind == "rule" and kwargs else None
    named = None if takes is None else inspect.signature(takes.call)
    given = (*args, *kwargs.values()) if named is None else _in_order(component.label, named, args, kwargs)
    if (kwargs and named is None) or not all(map(is_value, given)):
        raise TracingError(
            f"the {component.kind} {component.label!r} takes no constants, only values that arrive "
            f"({user_line()}); give the parameter a default, or make the {component.kind} with the constant in it"
        )
    if not component.takes_join and len(given) > 1:
        raise WrongArity(
            f"the {component.kind} {component.label!r} takes one value inside @workflow and got {len(given)} "
            f"({user_line()}); its state is not an argument, since it keeps that itself"
        )
    return component, list(given)


def _in_order(
    label: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    try:
        bound = signature.bind_partial(*args, **kwargs)
    except TypeError as error:
        raise WrongArity(f"{label!r}: {error} ({user_line()})") from None
    return bound.args


def _bound(
    label: str, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], *, spread: bool
) -> tuple[Function, Values]:
    try:
        signature = inspect.signature(function.call)
    except (ValueError, TypeError):  # a builtin that does not tell: values by position, constants by name
        if not all(map(is_value, args)) or any(map(is_value, kwargs.values())):
            raise TracingError(
                f"{label!r} does not tell its parameters, so values go by position and constants by name "
                f"({user_line()}); wrap it in a function"
            ) from None
        return function.bind(kwargs), list(args)
    free = [p for p in signature.parameters.values() if p.name not in function.constants or p.name in kwargs]
    gathers = spread or any(isinstance(argument, Join) for argument in (*args, *kwargs.values()))
    open_signature = signature.replace(parameters=free)
    try:
        bind = open_signature.bind_partial if gathers else open_signature.bind
        given = bind(*args, **kwargs).arguments
    except TypeError as error:
        raise WrongArity(f"{label!r}: {error} ({user_line()}); it takes {open_signature}") from None
    values: Values = []
    constants: dict[str, Any] = {}
    opened: list[str] = []
    for name, value in given.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            values += value
        elif kind is inspect.Parameter.VAR_KEYWORD:
            constants.update(value)
        elif not is_value(value):
            constants[name] = value
        else:
            values.append(value)
            if name not in function.required:
                opened.append(name)
    _check_places(label, values, constants)
    return function.bind(constants).taking(tuple(opened)), values


def _check_places(label: str, values: Values, constants: Mapping[str, Any]) -> None:
    if not all(map(is_value, values)):
        raise TracingError(f"{label!r} gets a constant among *args ({user_line()}); give it by name, or in a step")
    if any(map(is_value, constants.values())):
        raise TracingError(f"{label!r} gets a traced value by **kwargs ({user_line()}); give it a named parameter")


def _check_closure(label: str, function: Function) -> None:
    """Refuse a function that was made inside the workflow and uses a traced value without taking it."""
    call: Any = function.call
    for cell in getattr(call, "__closure__", None) or ():
        try:
            held = cell.cell_contents
        except ValueError:  # filled later
            continue
        if (found := contains_symbol(held)) is not None:
            raise TracingError(
                f"{label!r} uses the value of {origin_of(found).label} without taking it ({user_line()}); "
                "give it a parameter, and hand the value over in the call"
            )
