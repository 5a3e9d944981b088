"""
A workflow as data, and back.

The data is JSON: the components in their order, each with its kind, its name, its fields and its parents,
the policies, and the outputs of a traced workflow.  Functions are references (``weft.log.functions``).
The workflow that is read has the same ``hash`` and ``version``, as long as its functions are found and unchanged.

    >>> import json, operator
    >>> from weft import Workflow, step
    >>> workflow = Workflow("sums", step(operator.neg, name="negate"))
    >>> data = json.loads(json.dumps(workflow.to_dict()))
    >>> Workflow.from_dict(data) == workflow
    True
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from weft.core.components.loop_ends import TurnStart
from weft.core.components.map import Map
from weft.core.compose.assembly import Assembly
from weft.core.compose.component import Component
from weft.core.compose.flow import ENTRY, INPUT, Flow, Link
from weft.core.compose.inlet import INPUT_NAME, Inlet
from weft.core.functions.offered import is_compared
from weft.core.graph.outputs import Output, Template, kept
from weft.core.workflow import Workflow
from weft.errors import (
    ChangedCode,
    CorruptLog,
    ResolutionError,
    UnencodableValue,
    UnresolvedConstant,
    UnresolvedFunction,
    an,
)
from weft.log import functions
from weft.log.class_registry import name_of
from weft.log.definition_json import Reader, Unportable, Writer, class_named, kinds
from weft.log.ext_types import content_hash
from weft.log.known_types import classes_of, known_types
from weft.typing import Wait

FORMAT = 1
_PYTHON = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode


class Definition(msgspec.Struct, frozen=True):
    """A workflow as bytes, known by their hash."""

    hash: bytes
    body: bytes
    data: dict[str, Any]
    policies: tuple[Any, ...]
    unportable: dict[str, Unportable]

    def check_portable(self) -> None:
        """
        Refuse functions and constants that no other process could find.

        Raises:
            UnresolvedFunction: a function, or a constant, has no name to be found by.
        """
        for component, what in self.unportable.items():
            if not what.is_function:
                advice = "make it data, or pass it by context(...), or keep the workflow and pass it: workflow="
                raise UnresolvedConstant(component, what.label, "cannot be written for another process", advice)
            raise UnresolvedFunction(
                component,
                what.label,
                "could not be found by another process",
                "define it with `def` at the top level of a module that makes a component of it, or keep the workflow "
                "and hand it over where the run is read: resume(id, workflow=the_workflow), or "
                "weft.log.decode(data, workflow=the_workflow)",
            )


def definition_of(workflow: Workflow) -> Definition:
    """Return *workflow* as bytes; computed once for each definition."""
    known = workflow.__dict__.get("_definition")
    # A copy with other policies also carries the cached bytes of its original.
    if isinstance(known, Definition) and known.policies is workflow.policies:
        return known
    data, unportable = _write(workflow)
    try:
        body = _encode(data)
    except UnicodeEncodeError as error:
        raise UnencodableValue(f"name that is not text ({error})", f"the definition of {workflow.name!r}") from error
    definition = Definition(content_hash(body), body, data, workflow.policies, unportable)
    workflow.__dict__["_definition"] = definition
    return definition


# -- writing -------------------------------------------------------------------------------------


def _write(workflow: Workflow) -> tuple[dict[str, Any], dict[str, Unportable]]:
    writer, assembly = Writer(), workflow.assembly
    components: list[dict[str, Any]] = []
    for name, component in assembly.components.items():
        writer.owner = name
        entry: dict[str, Any] = {"kind": component.kind, "name": name}
        if component.tags:
            entry["tags"] = list(component.tags)
        entry.update({key: value for key, value in _fields(writer, component, assembly) if value})
        if name in assembly.inlets:
            entry["inlets"] = [
                [list(inlet.parents), inlet.wait, *([list(inlet.errors)] if inlet.errors else [])]
                for inlet in assembly.inlets[name]
            ]
        if name in assembly.homes:
            entry["home"] = assembly.homes[name]
        components.append(entry)
    rules: list[Any] = []
    for number, rule in enumerate(workflow.policies, 1):
        writer.owner = f"policy rule {number}"
        rules.append(writer.write(list(rule)))
    data = {"weft": FORMAT, "python": _PYTHON, "name": workflow.name, "components": components, "policies": rules}
    if workflow.returned is not None:
        writer.owner = f"what {workflow.name} returns"
        data["returns"] = _written(writer, workflow.returned)
    return data, writer.unportable


def _written(writer: Writer, template: Template) -> Any:
    """Return the outputs of a traced workflow: names of components, in lists that begin with their container class."""
    if isinstance(template, Output):
        return template.component
    if isinstance(template, dict):
        pairs = cast("Mapping[Any, Any]", template).items()
        return ["dict", *([writer.write(key), _written(writer, inner)] for key, inner in pairs)]
    inner = cast("list[Any] | tuple[Any, ...]", template)
    return ["tuple" if isinstance(inner, tuple) else "list", *(_written(writer, item) for item in inner)]


def _fields(writer: Writer, component: Component, assembly: Assembly) -> Iterator[tuple[str, Any]]:
    yield "fields", writer.fields(component)
    if isinstance(component, Map):
        yield "tails", [assembly.names[tail] for tail in component.body.tails if tail in assembly.names]
        yield "wait", "" if component.body.wait == "all" else component.body.wait


# -- reading -------------------------------------------------------------------------------------


def to_dict(workflow: Workflow) -> dict[str, Any]:
    """Return *workflow* as JSON, for the caller to keep."""
    return _write(workflow)[0]


def read_definition(body: bytes, *, workflow: Workflow | None = None, strict: bool = False) -> Workflow:
    """Return the workflow that was written as *body*; see :func:`read_data`."""
    try:
        data = _decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise CorruptLog(f"a definition cannot be read: {error}") from error
    return read_data(data, workflow=workflow, strict=strict)


def read_data(data: Mapping[str, Any], *, workflow: Workflow | None = None, strict: bool = False) -> Workflow:
    """
    Return the workflow that *data* describes.

    Its ``changed`` lists the components whose code has changed, its ``unresolved`` those whose function is missing
    here or was not offered by this process; running one of these fails.

    Args:
        workflow: the live definition: functions are taken from it, by component.
        strict: refuse code that has changed.

    Raises:
        CorruptLog: *data* does not describe a workflow.
        ChangedCode: *strict*, and some code has changed.
    """
    if workflow is not None and definition_of(workflow).data == data:
        return workflow
    try:
        read = _read(data, workflow)
    except (CorruptLog, ResolutionError):
        raise
    except Exception as error:
        raise CorruptLog(f"this does not describe a workflow: {type(error).__name__}: {error}") from error
    if strict and data["python"] != _PYTHON:  # code is compared as instructions, which differ between versions
        raise ChangedCode(read.name, [f"{name} ({data['python']})" for name in read.components])
    if strict and read.changed:
        raise ChangedCode(read.name, read.changed)
    return read


def _returned(reader: Reader, data: Any) -> Template:
    if isinstance(data, str):
        return Output(data)
    kind, *items = data
    if kind == "dict":
        return {reader.read(key): _returned(reader, inner) for key, inner in items}
    inner = [_returned(reader, item) for item in items]
    return tuple(inner) if kind == "tuple" else inner


def _inlet(parents: list[str], wait: Wait, errors: list[str] | None = None) -> Inlet:
    return Inlet(tuple(parents), wait, tuple(errors or ()))


def _read(data: Mapping[str, Any], live: Workflow | None) -> Workflow:
    if data["weft"] != FORMAT:
        raise CorruptLog(f"a definition of format {data['weft']!r}; upgrade Weft to read it")
    types, memo = known_types([live]) if live is not None else {}, functions.Memo()
    found = {id(call): call for call in map(memo.resolve, _named(data, "$call")) if call is not None}
    for kind in map(class_named, _named(data, "$class")):
        if kind is not None and is_compared(kind):
            found[id(kind)] = kind
    for call in found.values():
        types.update({name_of(kind): kind for kind in classes_of(call)})
    reader = Reader(types, memo, comparable=data["python"] == _PYTHON)
    entries = {str(entry["name"]): cast("dict[str, Any]", entry) for entry in data["components"]}
    inlets = {
        name: tuple(_inlet(*inlet) for inlet in entry["inlets"]) for name, entry in entries.items() if "inlets" in entry
    }
    homes = {name: str(entry["home"]) for name, entry in entries.items() if "home" in entry}
    for name, home in homes.items():
        if home not in entries or entries[home]["kind"] not in (Map.kind, TurnStart.kind):
            raise CorruptLog(f"{name!r} is inside {home!r}, which is neither a map nor a loop")
    components: dict[str, Component] = {}
    for name, entry in entries.items():
        reader.owner = name
        beside = live.components.get(name) if live is not None else None
        components[name] = _component(name, entry, reader, beside)
    # Maps and the components inside them refer to each other, so the bodies come last, inner ones first.
    for name in sorted(set(homes.values()), key=lambda name: -_depth(name, homes)):
        if not isinstance(components[name], Map):
            continue
        body = _body(name, entries[name], components, inlets, homes)
        object.__setattr__(components[name], "body", body)
    rules: list[Any] = []
    for number, rule in enumerate(data["policies"]):
        reader.owner = f"policy rule {number + 1}"
        beside = live.policies[number] if live is not None and number < len(live.policies) else None
        rules.append(tuple(reader.read(rule, beside)))
    names = {component: name for name, component in components.items()}
    read = Workflow.assembled(str(data["name"]), Assembly(components, inlets, homes, names), rules)
    if live is not None:
        read.context, read.declared = live.context, live.declared  # these are not stored
    if "returns" in data:
        reader.owner = f"what {read.name} returns"
        read.returned = _returned(reader, data["returns"])
        if kept(read.returned, components) is None:
            raise CorruptLog(f"the workflow {read.name!r} returns something that none of its components makes")
    read.changed, read.unresolved = tuple(reader.changed), tuple(reader.unresolved)
    read.missing = reader.unresolved
    return read


def _component(name: str, entry: dict[str, Any], reader: Reader, live: Component | None) -> Component:
    kind = kinds().get(entry["kind"])
    if kind is None:
        raise CorruptLog(f"{name!r} is {an(entry['kind'])}, which is not known; import the module that defines it")
    beside = live if type(live) is kind else None
    given: dict[str, Any] = {
        field: reader.read(item, getattr(beside, field, None)) for field, item in entry.get("fields", {}).items()
    }
    if kind is Map:
        given["body"] = Flow()
    made: Component = kind.from_data(name, tuple(entry.get("tags", ())), given)
    return made


def _body(
    name: str,
    entry: dict[str, Any],
    made: Mapping[str, Component],
    inlets: Mapping[str, tuple[Inlet, ...]],
    homes: Mapping[str, str],
) -> Flow:
    """Return the body of the map *name*, as it was written with ``each(...)``."""
    entries: list[Link] = []
    links: list[Link] = []
    members = [member for member, home in homes.items() if home == name]
    for member in members:
        for inlet in inlets.get(member, ()):
            parents = tuple(ENTRY if p == name else INPUT if p == INPUT_NAME else made[p] for p in inlet.parents)
            (entries if name in inlet.parents else links).append(Link(parents, made[member], inlet.wait))
    inner = tuple(made[member].flow() for member in members if isinstance(made[member], Map))
    return Flow(
        entries=tuple(entries),
        tails=tuple(made[str(tail)] for tail in entry.get("tails", ())),
        wait=entry.get("wait", "all"),
        components=tuple(made[member] for member in members if not isinstance(made[member], Map)),
        links=tuple(links),
        parts=inner,
    )


def _depth(name: str, homes: Mapping[str, str]) -> int:
    """Return how many maps are around *name*."""
    depth = 0
    while name in homes:
        name, depth = homes[name], depth + 1
        if depth > len(homes):
            raise CorruptLog(f"{name!r} is inside itself")
    return depth


def _named(data: Any, key: str) -> Iterator[Mapping[str, Any]]:
    """Yield what *data* names with *key*: functions, or classes."""
    pending: list[Any] = [data]
    seen: set[int] = set()
    while pending:
        item = pending.pop()
        if id(item) in seen:  # JSON has no cycles, but an object of the caller may
            continue
        seen.add(id(item))
        if isinstance(item, list):
            pending.extend(cast("Any", item))
        elif isinstance(item, dict):
            held = cast("dict[str, Any]", item)
            if key in held:
                yield held[key]
            pending.extend(held.values())
