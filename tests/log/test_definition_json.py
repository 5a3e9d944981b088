"""A definition that was written by hand cannot have anything called, or constructed, that was not offered."""

from __future__ import annotations

import base64
import importlib
import json
import operator
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import weft.core
from weft import Workflow, context, step
from weft.core.compose.component import Component
from weft.core.functions.offered import is_offered, offer
from weft.errors import CorruptLog, UnresolvedFunction
from weft.log import decode, encode, register
from weft.log.definition_json import Reader, Writer
from weft.log.event_codec import from_terms
from weft.log.functions import Memo
from weft.log.part_types import hints_of, is_of
from weft.log.value_encoder import encode_value
from weft.log.wire_names import COMPONENTS, PARTS
from weft.policy import RateLimit

HERE = Path(__file__).parent

LIBRARY = """
calls = []

def shell(*args, **kwargs):
    calls.append(args)
    return 1

class Tool:
    def __init__(self, *args): calls.append(args)
    def run(self, *args): calls.append(args)
    def __call__(self, *args): calls.append(args)

class Sticky(Exception):
    def __init__(self, *args): calls.append(args)

tool = object.__new__(Tool)
"""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that the application has imported for other reasons."""
    module = ModuleType("library")
    monkeypatch.setitem(sys.modules, "library", module)
    exec(LIBRARY, module.__dict__)  # noqa: S102
    return module


def to(name: str, **more: str) -> dict[str, Any]:
    """Return a reference into the library."""
    return {"$call": {"module": "library", "name": name, "code": "00", **more}}


FUNCTIONS: dict[str, Any] = {
    "a function": to("shell"),
    "a class": to("Tool"),
    "an object": to("tool"),
    "a method of an object": to("tool", method="run"),
    "a method of a class": to("Tool.run"),
    "an exception": {"$error": {"module": "library", "name": "Sticky"}},
    "an exception as a function": to("Sticky"),
    "a class to compare with": {"$class": {"module": "library", "name": "Tool"}},
    "a part of nothing": to("shell", part=""),
    "a partial": {"$partial": [to("shell"), {"$tuple": [1]}, {"$map": []}]},
    "a partial of a partial": {
        "$partial": [{"$partial": [to("tool"), {"$tuple": []}, {"$map": []}]}, {"$tuple": []}, {"$map": []}]
    },
    "a script": to("shell", main=True),  # type: ignore[arg-type]
}


def given(function: Any, *required: str, **more: Any) -> Any:
    """Return what takes any input, or *required* ones, as a part of a definition."""
    fields = {"call": function, "required": {"$tuple": list(required)}, "variadic": not required and not more}
    return {"$part": ["function.Function", {**fields, **more}]}


def whole(component: dict[str, Any], *policies: Any) -> dict[str, Any]:
    """Return a definition of one component."""
    template = Workflow("planted", step(operator.neg, name="price")).to_dict()
    return {**template, "components": [{"name": "price", **component}], "policies": list(policies)}


def rule_of(**fields: Any) -> list[Any]:
    """Return a rule for everything."""
    return [{"$part": ["matching._Default", {}]}, {"$part": ["policy.Policy", fields]}]


def failing(x: Any) -> Any:
    """Fail, so that policies are asked."""
    raise ValueError(x)


def reading(x: Any = context("k", default=None)) -> Any:
    """Read the context."""
    return x


FAILING = given({"$call": {"module": __name__, "name": "failing", "code": "00"}}, "x")
READING = {"$call": {"module": __name__, "name": "reading", "code": "00"}}
NEGATION = {"$call": {"module": "_operator", "name": "neg", "code": "00"}}

PLACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "a step": lambda call: whole({"kind": "step", "fields": {"function": given(call)}}),
    "a condition": lambda call: whole({"kind": "condition", "fields": {"function": given(call)}}),
    "a rule": lambda call: whole({"kind": "rule", "fields": {"then": given(call), "when": given(call)}}),
    "an accumulator": lambda call: whole(
        {
            "kind": "accumulator",
            "fields": {"function": given(call), "initial": {"$part": ["accumulator.Initial", {"init": call}]}},
        }
    ),
    "an initial state": lambda call: whole({"kind": "aggregate", "fields": {"init": call}}),
    "the key of a process": lambda call: whole({"kind": "process_manager", "fields": {"init": 0, "key": call}}),
    "a hook": lambda call: whole(
        {
            "kind": "step",
            "fields": {
                "function": given(NEGATION),
                "hooks": {"$part": ["hooks.Hooks", {"before": {"$tuple": [given(call)]}}]},
            },
        }
    ),
    "a default of the context": lambda call: whole(
        {
            "kind": "step",
            "fields": {
                "function": given(
                    READING,
                    references={"$map": [["x", {"$part": ["references.Context", {"key": "k", "default": call}]}]]},
                )
            },
        }
    ),
    **{
        f"{field} of a policy": lambda call, field=field: whole(  # type: ignore[misc]
            {"kind": "step", "fields": {"function": FAILING}}, rule_of(max_retries=1, base_delay=0.0, **{field: call})
        )
        for field in ("backoff", "fallback", "retryable", "idempotency_key")
    },
    "a matcher": lambda call: whole(
        {"kind": "step", "fields": {"function": FAILING}}, [call, {"$part": ["policy.Policy", {"max_retries": 1}]}]
    ),
    "a matcher inside of another": lambda call: whole(
        {"kind": "step", "fields": {"function": FAILING}},
        [
            {"$part": ["matching.Within", {"workflow": "", "matcher": call}]},
            {"$part": ["policy.Policy", {"max_retries": 1}]},
        ],
    ),
}


@pytest.fixture(autouse=True)
def offered() -> Iterator[None]:
    """Offer the functions with which the planted definitions are made to look harmless."""
    kept = [step(failing), step(reading), step(operator.neg)]
    yield
    del kept


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_was_not_offered_is_called(library: ModuleType, place: str, function: str) -> None:
    data = json.loads(json.dumps(PLACES[place](FUNCTIONS[function])))

    try:
        workflow = Workflow.from_dict(data)
    except CorruptLog:
        pass
    else:
        assert workflow.unresolved, "it says which component lacks a function"
        run = workflow.plan(1)
        try:
            run.react_until_satisfied()
        except UnresolvedFunction as error:
            assert "library" in str(error)  # noqa: PT017
    assert library.calls == []


def test_the_same_definitions_work_once_the_function_is_offered(library: ModuleType) -> None:
    offer(library.shell)

    for place, planted in PLACES.items():
        library.calls.clear()
        workflow = Workflow.from_dict(json.loads(json.dumps(planted(FUNCTIONS["a function"]))))
        assert workflow.unresolved == (), place


def test_what_is_called_names_what_wants_it_and_says_what_to_do(library: ModuleType) -> None:
    workflow = Workflow.from_dict(PLACES["a step"](to("shell")))

    cause = workflow.plan(1).react_until_satisfied().failures["price"].__cause__

    assert isinstance(cause, UnresolvedFunction)
    for told in (
        "library.shell",
        "'price'",
        "not offered",
        "import the module",
        "register(module)",
        "--import",
        "workflow=",
    ):
        assert told in str(cause)
    assert library.calls == []


def test_a_value_cannot_stand_for_a_function(library: ModuleType) -> None:
    @register(name="terms.Tool")
    @dataclass
    class Tool:
        """A class whose instances may come back from a log, and can be called."""

        path: str

        def __call__(self, *_: Any) -> None:
            library.calls.append(self)

    body = base64.b64encode(encode_value(Tool("x"))).decode()

    with pytest.raises(CorruptLog, match=r"'price' has a .*Tool, which can be called, as a value"):
        Workflow.from_dict(PLACES["a step"]({"$value": body}))


def test_an_exception_in_a_policy_is_compared_and_not_constructed(library: ModuleType) -> None:
    named = {"$error": {"module": "library", "name": "Sticky"}}
    data = whole(
        {"kind": "step", "fields": {"function": FAILING}},
        rule_of(max_retries=3, retryable={"$tuple": [named]}, non_retryable={"$tuple": [named]}),
    )

    workflow = Workflow.from_dict(data)

    assert workflow.unresolved == ()
    assert workflow.policies[0][1].retryable == (library.Sticky,)
    assert "ValueError" in repr(workflow.plan(1).react_until_satisfied().failures["price"].__cause__)
    assert library.calls == []
    assert not is_offered(library.Sticky)


def test_an_exception_that_is_not_here_is_written_again_as_it_was() -> None:
    named = {"$error": {"module": "elsewhere", "name": "Outer.Gone"}}
    data = whole({"kind": "step", "fields": {"function": FAILING}}, rule_of(retryable={"$tuple": [named]}))

    assert Workflow.from_dict(data).to_dict()["policies"] == data["policies"]


def test_a_constant_that_is_a_class_of_exceptions_comes_back_where_it_was_bound() -> None:
    def complain(x: Any, error: Any) -> Any:
        raise error(x)

    workflow = Workflow("w", step(complain, name="complain").bind(error=KeyError))

    (defined, *_) = decode(encode(workflow.plan(1).log()), workflow=workflow)
    alone = Workflow.from_dict(workflow.to_dict())

    assert defined.workflow.component("complain").function.constants["error"] is KeyError
    assert alone.component("complain").function.constants["error"] is KeyError


def test_reading_a_definition_offers_nothing(library: ModuleType) -> None:
    for place, planted in PLACES.items():
        for call in FUNCTIONS.values():
            try:
                Workflow.from_dict(json.loads(json.dumps(planted(call))))
            except CorruptLog:
                continue
            for thing in (library.shell, library.Tool, library.tool, library.tool.run, library.Sticky):
                assert not is_offered(thing), (place, call)


# -- Weft's own records --------------------------------------------------------------------------


def test_a_definition_constructs_the_records_of_a_closed_table_and_no_others() -> None:
    reader = Reader({}, Memo(), comparable=True)
    own = {
        f"{name.rpartition('.')[2]}.{kind.__qualname__}": kind
        for name, module in list(sys.modules.items())
        if name.startswith(("weft.", "msgspec"))
        for kind in list(vars(module).values())
        if isinstance(kind, type)
    }
    others = sorted(own.keys() - PARTS.keys())
    assert {"runnable.Runnable", "events.RunCancelled", "flow.Flow"} <= set(others)

    for name in others:
        with pytest.raises(CorruptLog, match="is not known"):
            reader.part([name, {}], None)


def test_every_record_of_the_pinned_definitions_is_in_the_table() -> None:
    pinned = json.loads((HERE / "wire" / "definitions.json").read_text())

    def parts(data: Any) -> Iterator[str]:
        if isinstance(data, dict):
            if "$part" in data:
                yield data["$part"][0]
            for item in data.values():
                yield from parts(item)
        elif isinstance(data, list):
            for item in data:
                yield from parts(item)

    assert {"function.Function", "policy.Policy"} <= set(parts(pinned)) <= PARTS.keys()


def test_the_names_of_records_are_wire_format() -> None:
    forever = {
        "accumulator": "Initial",
        "aggregate": "Command",
        "condition": "And Leaf Not Or",
        "failure": "Failure",
        "fallback": "Value",
        "fsm": "Transition",
        "function": "Function",
        "history": "SagaOutcome",
        "hooks": "Hooks",
        "join": "Absent",
        "limits": "CircuitBreaker ConcurrencyLimit RateLimit",
        "matching": "Declared Kinds Pattern Tag Within _Default",
        "pattern": "Capture Entries Equals Items OfClass",
        "policy": "Policy",
        "projection": "Argument Attribute Item",
        "reduce": "Stop",
        "references": "AllValues Context FactCount InTransaction Latest StateOf StepRan",
        "saga": "Deed",
        "schema": "Schema",
        "state_machine": "Reactor",
    }

    assert PARTS.keys() == {f"{group}.{name}" for group, names in forever.items() for name in names.split()}
    for name, kind in PARTS.items():
        assert name.endswith(f".{kind.__qualname__}")
        assert issubclass(kind, msgspec.Struct) or hasattr(kind, "__dataclass_fields__")
        assert not issubclass(kind, Component)


# -- parts with wrong fields ---------------------------------------------------------------------

WRONG = {"$tuple": [7]}
"""A value that no field has."""

TYPED = [
    (name, field) for name, kind in PARTS.items() for field, hint in hints_of(kind).items() if not is_of((7,), hint)
]


@pytest.mark.parametrize(("name", "field"), TYPED)
def test_a_part_with_a_field_of_another_type_is_refused_when_it_is_read(name: str, field: str) -> None:
    with pytest.raises(CorruptLog, match=rf"{PARTS[name].__name__}\({field}=\(7,\)\)"):
        Reader({}, Memo(), comparable=True).read({"$part": [name, {field: WRONG}]})


def test_every_part_with_a_type_to_check_is_checked() -> None:
    untyped = PARTS.keys() - {name for name, _ in TYPED}

    assert untyped == {
        *("accumulator.Initial", "fallback.Value", "matching._Default", "pattern.Equals", "projection.Item"),
        *("reduce.Stop", "references.InTransaction"),
    }


MATCHERS: dict[str, Any] = {
    "a number": 7,
    "a tag that is a number": {"$part": ["matching.Tag", {"name": 7}]},
    "a pattern that is text": {"$part": ["matching.Pattern", {"expression": "a"}]},
    "kinds that are numbers": {"$part": ["matching.Kinds", {"classes": {"$tuple": [7]}}]},
    "kinds that are no tuple": {"$part": ["matching.Kinds", {"classes": [7]}]},
    "a number in a nested workflow": {"$part": ["matching.Within", {"workflow": "w", "matcher": 7}]},
}
STEP = {"kind": "step", "fields": {"function": given(NEGATION, "x")}}


@pytest.mark.parametrize("name", MATCHERS)
def test_a_malformed_matcher_is_refused_when_it_is_read(name: str) -> None:
    rule = [MATCHERS[name], rule_of()[1]]

    with pytest.raises(CorruptLog):
        Workflow.from_dict(whole(STEP, rule))
    with pytest.raises(CorruptLog):
        from_terms([rule])


@pytest.mark.parametrize("policy", [7, {"$part": ["matching.Tag", {"name": "a"}]}, rule_of(max_retries="many")[1]])
def test_a_malformed_policy_is_refused_when_it_is_read(policy: Any) -> None:
    with pytest.raises(CorruptLog):
        Workflow.from_dict(whole(STEP, ["price", policy]))
    with pytest.raises(CorruptLog):
        from_terms(policy)
    with pytest.raises(CorruptLog):
        from_terms([["price", policy]])


def test_a_rule_that_is_well_formed_is_read() -> None:
    rule = [{"$part": ["matching.Within", {"workflow": "w", "matcher": "a"}]}, rule_of(max_retries=2)[1]]

    ((matcher, policy),) = from_terms([rule])

    assert (matcher.matcher, policy.max_retries) == ("a", 2)


def test_a_rate_limit_that_was_stored_before_bursts_were_the_limit_keeps_its_burst_of_one() -> None:
    read = Reader({}, Memo(), comparable=False).read
    before = read({"$part": ["limits.RateLimit", {"name": "api", "limit": 10}]})
    written = Writer().write(RateLimit("api", 10))

    assert before == RateLimit("api", 10, burst=1)
    assert read(written) == RateLimit("api", 10, burst=10)
    assert read(Writer().write(before)) == before


def test_every_component_of_weft_is_known_before_it_is_used() -> None:
    """The decoder imports all components itself; the program may have used none of them."""
    for module in pkgutil.walk_packages(weft.core.__path__, "weft.core."):
        importlib.import_module(module.name)
    found: list[type[Component]] = [Component]
    for kind in found:
        found.extend(kind.__subclasses__())

    own = {kind for kind in found if kind.__module__.startswith("weft.core.")}
    named = {kind for kind in own if "kind" in vars(kind)}

    assert named == set(COMPONENTS)
    assert len({kind.kind for kind in COMPONENTS}) == len(COMPONENTS)
