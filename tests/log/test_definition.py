"""A workflow as data, and back: the same components, the same wiring, the same identity."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import flows
import pytest
from building import build
from cases import Case, budget, cases
from flows import WORKFLOWS, Order
from hypothesis import given

from weft import Policy, Run, Workflow, accumulator, each, reduce, repeat, rule, step, workflow
from weft.core.components.rule import Rule
from weft.errors import ChangedCode, CorruptLog, UnresolvedConstant, UnresolvedFunction
from weft.log import decode, definition_of, encode


def as_json(workflow: Workflow) -> Any:
    """Return what another program would get."""
    return json.loads(json.dumps(workflow.to_dict(), sort_keys=True))


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_comes_back_from_json(name: str) -> None:
    workflow, value = WORKFLOWS[name]

    again = Workflow.from_dict(as_json(workflow))

    assert (again.hash, again.version, again.name) == (workflow.hash, workflow.version, workflow.name)
    assert again == workflow
    assert list(again.components) == list(workflow.components)
    assert again.edges() == workflow.edges()
    assert {n: c.tags for n, c in again.components.items()} == {n: c.tags for n, c in workflow.components.items()}
    assert (again.changed, again.unresolved) == ((), ())
    assert again.policies == workflow.policies
    assert again.run(value).results() == workflow.run(value).results()
    assert again.to_dict() == workflow.to_dict()


@budget(0.2)
@given(cases())
def test_any_workflow_comes_back(case: Case) -> None:
    workflow = build(case.graph)

    again = Workflow.from_dict(as_json(workflow))

    assert (again.hash, again.version) == (workflow.hash, workflow.version)
    assert again.edges() == workflow.edges()


def test_every_function_of_the_samples_can_be_found_elsewhere() -> None:
    lost = {name: definition_of(workflow).unportable for name, (workflow, _) in WORKFLOWS.items()}

    assert {name: what for name, what in lost.items() if what} == {}


def test_a_definition_is_known_by_its_policies_too() -> None:
    plain = Workflow("w", flows.double)
    known = definition_of(plain)

    ruled = plain.with_policies([("double", Policy(max_retries=1))])

    assert ruled == plain
    assert definition_of(ruled).hash != known.hash
    assert definition_of(plain) is known, "worked out once"


def test_a_component_can_be_added_behind_a_map_that_was_read() -> None:
    workflow, _ = WORKFLOWS["map"]
    (name,) = (name for name, component in workflow.components.items() if component.kind == "map")
    last = reduce(lambda acc, x: [*acc, x], init=list, name="all")
    again = Workflow.from_dict(as_json(workflow))

    assert again.add(last, to=name).run([1, 2, 3]).value("all") == workflow.add(last, to=name).run([1, 2, 3]).value(
        "all"
    )
    assert (
        Workflow("other", again.component(name) >> last).hash
        == Workflow("other", workflow.component(name) >> last).hash
    )


# -- functions that cannot be found --------------------------------------------------------------


def local_workflow() -> Workflow:
    """Functions that cannot be found by a name."""

    def tripled(x: int) -> int:
        return 3 * x

    return Workflow("local", step(tripled) >> accumulator(lambda s, x: s + x, init=lambda: 100, name="sum"))


def test_a_local_function_says_so_when_it_is_run() -> None:
    workflow = local_workflow()

    again = Workflow.from_dict(as_json(workflow))

    assert again == workflow, "it has the identity it had"
    assert again.unresolved == ("tripled", "sum")
    run = again.run(5)
    cause = run.failures["tripled"].__cause__
    assert isinstance(cause, UnresolvedFunction)
    assert cause.component == "tripled"
    assert "tripled" in str(cause)
    assert "hand the workflow over" in str(cause)
    assert again.to_dict()["components"] == workflow.to_dict()["components"], "written again as it was read"


def test_a_function_is_taken_from_the_workflow_that_is_handed_over() -> None:
    log = local_workflow().react(5).log()

    run = Run.from_log(decode(encode(log), workflow=local_workflow()))

    assert run.workflow.unresolved == ()
    assert run.react_until_satisfied().value("sum") == 115


def test_functions_are_taken_by_component_from_a_workflow_that_has_grown() -> None:
    live = local_workflow().add(flows.double, to="sum")
    data = as_json(local_workflow())

    again = Workflow.from_dict(data, workflow=live)

    assert (again.unresolved, again.changed) == ((), ())
    assert again == local_workflow()
    assert again.run(5).value("sum") == 115


def test_a_constant_that_is_not_data_is_taken_from_the_workflow_that_is_handed_over() -> None:
    handle = object()
    live = Workflow("bound", step(isinstance_of, name="ask").bind(handle=handle))
    data = as_json(live)

    alone, given_back = Workflow.from_dict(data), Workflow.from_dict(data, workflow=live.renamed("other"))

    assert alone == live
    assert alone.unresolved == ("ask",)
    assert isinstance(alone.run(1).failures["ask"].__cause__, UnresolvedFunction)
    assert given_back.run(1).value("ask") == repr(handle)


def isinstance_of(x: int, handle: object) -> str:
    """Show what it was bound to."""
    return repr(handle) if x else ""


def test_a_constant_that_is_not_data_is_called_a_constant_and_not_a_function() -> None:
    live = Workflow("bound", step(isinstance_of, name="ask").bind(handle=Odd()))
    said = r"a constant of 'ask', an Odd, .*context\(\.\.\.\)"

    with pytest.raises(UnresolvedConstant, match=said):
        encode(live.run(1).log(), portable=True)
    failed = Workflow.from_dict(as_json(live)).run(1).failures["ask"].__cause__
    assert isinstance(failed, UnresolvedConstant)
    assert re.search(said, str(failed))
    assert "function" not in str(failed)


def test_a_constant_of_a_class_that_is_not_known_says_that_it_can_be_registered() -> None:
    live = Workflow("bound", step(isinstance_of, name="ask").bind(handle=flows.Order(1)))

    failed = Workflow.from_dict(as_json(live)).run(1).failures["ask"].__cause__

    assert "a class that is not known here; register the class" in str(failed)


def test_an_initial_state_that_is_not_data_says_so_when_it_is_wanted() -> None:
    live = Workflow("held", accumulator(keep, init=Odd(), name="kept"))

    again = Workflow.from_dict(as_json(live))

    assert again == live
    assert isinstance(again.run(1).failures["kept"].__cause__, UnresolvedFunction)


class Odd:
    """No data."""


def keep(state: Any, x: Any) -> Any:
    """Keep it."""
    return state


def test_a_definition_that_could_not_be_found_elsewhere_is_not_portable() -> None:
    log = local_workflow().run(1).log()

    with pytest.raises(UnresolvedFunction, match="tripled"):
        encode(log, portable=True)
    assert decode(encode(log)) == log


# -- code that changed ---------------------------------------------------------------------------


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Define the module ``shop`` again, as a deploy does."""

    def deploy(source: str) -> ModuleType:
        module = ModuleType("shop")
        exec(compile(source, "shop.py", "exec"), module.__dict__)  # noqa: S102
        monkeypatch.setitem(sys.modules, "shop", module)
        return module

    return deploy


FIRST = """
from weft import Workflow, step

def one(x): return x + 1
def two(x): return x * 2

wf = Workflow("shop", step(one) >> step(two))
"""


def test_code_that_changed_is_used_and_reported(app: Callable[[str], ModuleType]) -> None:
    data = encode(app(FIRST).wf.react(5).log())
    app(FIRST.replace("x * 2", "x * 3"))

    run = Run.from_log(decode(data))

    assert run.workflow.changed == ("two",)
    assert run.value("one") == 6, "what completed stands"
    assert run.react_until_satisfied().value("two") == 18, "what is pending runs the new code"


def test_code_that_changed_is_refused_if_asked(app: Callable[[str], ModuleType]) -> None:
    data = encode(app(FIRST).wf.run(5).log())
    assert decode(data, strict=True)
    app(FIRST.replace("x * 2", "x * 3"))

    with pytest.raises(ChangedCode, match="'two'") as caught:
        decode(data, strict=True)

    assert caught.value.components == ("two",)


def test_code_that_takes_something_else_now_says_so_when_it_is_run(app: Callable[[str], ModuleType]) -> None:
    data = encode(app(FIRST).wf.react(5).log())
    app(FIRST.replace("def two(x): return x * 2", "def two(x, y): return x * y").replace("wf =", "made = step(two) or"))

    run = Run.from_log(decode(data))

    cause = run.react_until_satisfied().failures["two"].__cause__
    assert isinstance(cause, UnresolvedFunction)
    assert "takes other parameters" in str(cause)


def test_code_that_became_a_coroutine_is_awaited(app: Callable[[str], ModuleType]) -> None:
    data = encode(app(FIRST).wf.react(5).log())
    app(FIRST.replace("def two(x): return x * 2", "async def two(x): return x * 4"))

    assert Run.from_log(decode(data)).react_until_satisfied().value("two") == 24


def test_a_function_that_is_gone_is_unresolved(app: Callable[[str], ModuleType]) -> None:
    data = encode(app(FIRST).wf.run(5).log())
    app("")

    (run,) = [Run.from_log(decode(data))]

    assert run.workflow.unresolved == ("one", "two")
    assert run.value("two") == 12, "what was made stands"


def test_code_of_another_python_is_not_compared() -> None:
    workflow, value = WORKFLOWS["pipeline"]
    data = as_json(workflow) | {"python": "cpython-2.7"}

    again = Workflow.from_dict(data)

    assert again.changed == ()
    assert again.run(value).results() == workflow.run(value).results()
    with pytest.raises(ChangedCode):
        Workflow.from_dict(data, strict=True)


@pytest.mark.parametrize(("call", "value"), [(bool, 1), (dict.items, {1: 2}), (str.upper, "a"), (float, "1.5")])
@pytest.mark.parametrize(("required", "variadic"), [([], True), (["self"], False)])
def test_a_builtin_that_tells_of_its_parameters_in_one_python_only_is_the_same_in_another(
    call: Any, value: Any, required: list[str], variadic: bool
) -> None:
    workflow = Workflow("w", step(call, name="s"))
    data = as_json(workflow) | {"python": "cpython-3.8"}
    [body] = [body for kind, body in parts(data) if kind == "function.Function"]
    body |= {"required": {"$tuple": required}, "variadic": variadic}

    again = Workflow.from_dict(data)

    assert again.unresolved == ()
    assert again.run(value).value("s") == call(value)


def parts(data: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parts of a definition, wherever they stand in it."""
    if isinstance(data, dict) and "$part" in data:
        kind, body = data["$part"]
        yield kind, body
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from parts(inner)


# -- constants and policies ----------------------------------------------------------------------


def test_constants_of_every_kind_come_back() -> None:
    for value in (2**70, -(2**53), float("inf"), b"x", "\ud800", {1: (2,)}, [{"a": flows.pair}], flows.pair):
        workflow = Workflow("w", step(isinstance_of, name="show").bind(handle=value))

        again = Workflow.from_dict(as_json(workflow))

        assert again.unresolved == ()
        assert again.run(1).value("show") == repr(value)


def test_a_constant_of_a_class_that_is_not_known_is_not_passed_on_as_a_record() -> None:
    live = Workflow("w", step(isinstance_of, name="show").bind(handle=[flows.Order(1)]))

    alone, given_back = Workflow.from_dict(as_json(live)), Workflow.from_dict(as_json(live), workflow=live.renamed("x"))

    assert alone.unresolved == ("show",)
    assert given_back.run(1).value("show") == repr([flows.Order(1)])


def test_a_policy_whose_function_cannot_be_found_says_so_when_it_is_asked() -> None:
    workflow = Workflow("w", flows.double).with_policies([(lambda target: False, Policy(max_retries=1))])
    data = as_json(workflow)

    alone, given_back = Workflow.from_dict(data), Workflow.from_dict(data, workflow=workflow)

    assert alone.unresolved == ("policy rule 1",)
    with pytest.raises(UnresolvedFunction, match="policy rule 1"):
        alone.run(1)
    assert given_back.run(1).value("double") == 2
    with pytest.raises(UnresolvedFunction, match="policy rule 1"):
        encode(workflow.plan(1).log(), portable=True)


def test_an_exception_whose_class_is_not_imported_is_known_by_its_name(app: Callable[[str], ModuleType]) -> None:
    module = app("class Flaky(Exception): ...")
    rules = [("double", Policy(max_retries=1, retryable=(module.Flaky,)))]
    data = as_json(Workflow("w", flows.double).with_policies(rules))
    del sys.modules["shop"]

    ((_, policy),) = Workflow.from_dict(data).policies

    assert isinstance(module.Flaky(), policy.retryable)
    assert not isinstance(ValueError(), policy.retryable)


def test_a_class_of_a_pattern_that_is_not_imported_is_known_by_its_name(app: Callable[[str], ModuleType]) -> None:
    module = app("class Order: ...\nclass Express(Order): ...")
    data = as_json(Workflow("w", rule(given=module.Order, then=flows.double.function.call, name="r")))
    del sys.modules["shop"]

    again = Workflow.from_dict(data)

    assert again.to_dict() == data
    found = again.components["r"]
    assert isinstance(found, Rule)
    assert found.check(module.Express()).fires
    assert str(found.check(5)) == "it does not fire: it is an int, not Order"


def test_a_class_of_a_pattern_is_taken_from_the_workflow_that_is_handed_over() -> None:
    class Local:
        """A class that no name leads to."""

    workflow = Workflow("w", rule(given=Local, then=lambda: "found", name="r"))

    run = Run.from_log(decode(encode(workflow.plan(1).log()), workflow=workflow.add(flows.double)))

    found = run.workflow.components["r"]
    assert isinstance(found, Rule)
    assert list(found.classes()) == [Local]


# -- junk ----------------------------------------------------------------------------------------


def spoilt(change: Callable[[Any], Any]) -> Any:
    """A definition with something wrong in it."""
    data = as_json(WORKFLOWS["map"][0])
    change(data)
    return data


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"weft": 99, "python": "x"},
        spoilt(lambda d: d.pop("components")),
        spoilt(lambda d: d["components"].append({"kind": "nonsense", "name": "x"})),
        spoilt(lambda d: d["components"][0].update(kind=["step"])),
        spoilt(lambda d: d["components"][0].update(inlets=[[["nobody"], "all"]])),
        spoilt(lambda d: d["components"][1].update(home="nobody")),
        spoilt(lambda d: d["components"][1].update(home=d["components"][1]["name"])),
        spoilt(lambda d: d["components"][1].update(fields={"function": {"$part": ["os.system", {}]}})),
        spoilt(lambda d: d["components"][1].update(fields={"function": {"$call": {"module": "os"}}})),
        spoilt(lambda d: d["components"][1].update(fields={"function": {"$value": "!"}})),
        spoilt(lambda d: d["components"][1].update(fields={"function": {"$import": "os"}})),
        spoilt(lambda d: d["components"][1].update(fields={"nothing": 1})),
        spoilt(lambda d: d.update(policies=[[{"$pattern": ["(", 0]}, {"$part": ["policy.Policy", {}]}]])),
        spoilt(lambda d: d.update(policies=[["x", {"$part": ["policy.Policy", {"max_retries": -1}]}]])),
    ],
)
def test_what_describes_no_workflow_is_refused(data: Any) -> None:
    before = set(sys.modules)

    with pytest.raises(CorruptLog):
        Workflow.from_dict(data)

    assert set(sys.modules) == before


def test_a_function_of_a_module_that_is_not_imported_is_not_looked_for() -> None:
    data = as_json(Workflow("w", step(flows.pair, spread=True)))
    reference = data["components"][0]["fields"]["function"]["$part"][1]["call"]["$call"]
    reference.update(module="antigravity", name="fly")

    again = Workflow.from_dict(data)

    assert again.unresolved == ("pair",)
    assert "antigravity" not in sys.modules


def test_an_each_without_a_reduce_comes_back() -> None:
    workflow = Workflow("w", each(flows.double, name="all"))

    again = Workflow.from_dict(as_json(workflow))

    assert again.run([1, 2]).values("double") == [2, 4]


def broken(data: Any, dice: random.Random) -> Any:
    """The same data with something in it replaced, dropped or repeated."""
    places: list[tuple[Any, Any]] = []
    pending = [data]
    while pending:
        held = pending.pop()
        keys = list(held) if isinstance(held, dict) else range(len(held)) if isinstance(held, list) else []
        places.extend((held, key) for key in keys)
        pending.extend(held[key] for key in keys)
    held, key = dice.choice(places)
    junk = [None, -1, "", "x", [], {}, {"$call": {}}, {"$tuple": 1}, {"$part": ["policy.Policy", {}]}, True, [[[]]]]
    held[key] = dice.choice([*junk, *(other[k] for other, k in places[:40])])
    return data


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_definition_that_was_broken_anywhere_is_refused_or_is_a_workflow(name: str) -> None:
    dice = random.Random(name)  # noqa: S311
    before, written = set(sys.modules), json.dumps(as_json(WORKFLOWS[name][0]))
    refused = 0

    for _ in range(150):
        try:
            assert isinstance(Workflow.from_dict(broken(json.loads(written), dice)), Workflow)
        except CorruptLog:
            refused += 1

    assert refused
    assert set(sys.modules) == before


# -- what a workflow returns ---------------------------------------------------------------------


def test_what_a_traced_workflow_returns_comes_back() -> None:
    traced, value = WORKFLOWS["traced"]

    again = Workflow.from_dict(as_json(traced))

    assert again.returned == traced.returned
    assert again.run(value).output == traced.run(value).output
    assert set(again.outputs) == set(traced.outputs)


def test_a_run_of_a_traced_workflow_has_its_output_after_a_round_trip() -> None:
    traced, value = WORKFLOWS["traced"]
    run = traced.run(value)

    again = Run.from_log(decode(encode(run.log())))

    assert again == run
    assert again.output == run.output == {"twice": 8, 1: (48, [Order(4), 4])}


def test_two_workflows_that_return_something_else_are_two_definitions() -> None:
    double = step(flows.scaled, name="double").bind(factor=2)
    one, two = workflow(lambda x: (double(x),), name="w"), workflow(lambda x: [double(x)], name="w")

    assert one == two
    assert definition_of(one).hash != definition_of(two).hash


def test_a_workflow_that_returns_what_it_does_not_make_is_refused() -> None:
    data = as_json(WORKFLOWS["traced"][0])

    with pytest.raises(CorruptLog, match="returns something that none of its components makes"):
        Workflow.from_dict({**data, "returns": ["list", "nobody"]})


# -- components inside a component ---------------------------------------------------------------


def test_the_steps_of_a_loop_come_back_whole() -> None:
    loop: Any = Workflow.from_dict(as_json(WORKFLOWS["repeat"][0])).components["grow"]

    assert [(part, inner.name, inner.tags, dict(inner.function.constants)) for part, inner in loop.turn.items()] == [
        ("double", "double", ("twice",), {}),
        ("by", "by", (), {"factor": 3}),
    ]
    assert (loop.at_most, loop.otherwise) == (9, "last")


def test_the_functions_of_a_loop_are_taken_from_the_workflow_that_is_handed_over() -> None:
    bound = 10
    live = Workflow("w", repeat(lambda x: x * 2, until=lambda x: x > bound, at_most=9, name="loop"))
    data = {**as_json(live), "name": "other"}

    assert Workflow.from_dict(data, workflow=live).run(3).output == 12
    assert Workflow.from_dict(data).unresolved == ("loop",)


@pytest.mark.parametrize("name", ["__globals__", "__class__", "_secret"])
def test_a_definition_does_not_reach_into_what_functions_and_classes_hide(name: str) -> None:
    """Of a function that was offered, ``__globals__`` would be all that its module holds, secrets included."""

    @workflow
    def titles(page: Any) -> Any:
        return page.title

    data = json.dumps(titles.to_dict())
    assert '{"name": "title"}' in data

    with pytest.raises(CorruptLog, match=f"{name!r}"):
        Workflow.from_dict(json.loads(data.replace('{"name": "title"}', json.dumps({"name": name}))))
