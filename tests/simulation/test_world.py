"""The simulation draws everything that Weft has, and its verdicts notice what is wrong."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from courses import Deed, Loop, Nest, Rounds, Route, Trip
from families import Child, Family, Start, draw_starts
from msgspec.structs import replace
from network import KINDS, Network, Place, Verdict, draw_network, made_nothing, shapes, upstream
from pieces import Account, Gate, Machine, Orders, Piece, Way
from remedies import FALLBACKS, UNDOING, Fragile, Spare
from world import draw, wired

from weft import INPUT, AsyncRunner, Policy, Run, Workflow, condition, rule
from weft.core.components import saga
from weft.errors import BatchFailed
from weft.testing import Scenario, run_virtually
from weft.testing.simulation.executor import SimulatedExecutor
from weft.testing.simulation.scenario_draw import draw_scenario

PIECES: list[Piece] = [
    Machine("p", 1, 4, 2),
    Gate(
        "p",
        {
            "shut": {"go": (Way("ajar", 0, True), Way(None, None, True)), "stop": (Way("shut", None, False),)},
            "ajar": {"go": (Way("open", 1, False),), "stop": (Way("shut", None, True),)},
            "open": {},
        },
        ("ajar", "shut"),
        ("shut",),
    ),
    Account("p", 3, 3),
    Orders("p", 2, 3, 5),
    Orders("p", 0, 4, 0),
    Trip("p", (Deed("t0", 0, True), Deed("t1", 4, True), Deed("t2", 3, False), Deed("t3", 2, True)), True),
    Loop("p", 1, 20, 4, False, 7),
    Loop("p", 2, 9, 2, True, 0),
    Route("p", 2),
    Nest("p", 3),
    Fragile("p", True),
    Rounds("p", "fork", 30, 3, False, 5),
    Rounds("p", "either", 20, 3, True, 0),
    Rounds("p", "map", 30, 2, False, 0),
    Rounds("p", "loop", 40, 2, True, 5),
    *(Spare("p", 2, remedy, number % 2 == 0, number % 3 == 0) for number, remedy in enumerate((*FALLBACKS, *UNDOING))),
    Spare("p", 3, "none", True, False),
]
IN_SHAPES = [(piece, shape) for piece in PIECES for shape in shapes(type(piece))]


def alone(piece: Piece, shape: Any) -> tuple[Workflow, Network]:
    """Return *piece* by itself."""
    network = Network((Place(piece, None, shape),))
    return wired(Workflow("w"), network, None).with_policies(list(network.policies.items())), network


def run_of(workflow: Workflow, values: list[Any]) -> Run:
    """Return a run in memory."""
    run = workflow.plan()
    for value in values:
        run.run(value)
    return run


@pytest.mark.parametrize(
    ("piece", "shape"), IN_SHAPES, ids=lambda given: getattr(given, "remedy", type(given).__name__)
)
def test_a_piece_says_what_comes_of_it(piece: Piece, shape: Any) -> None:
    workflow, network = alone(piece, shape)
    values = list(range(40))

    run = run_of(workflow, values)

    assert list(Verdict(network, values)(run)) == []


@pytest.mark.parametrize(
    ("piece", "shape"), IN_SHAPES, ids=lambda given: getattr(given, "remedy", type(given).__name__)
)
def test_an_input_more_is_noticed(piece: Piece, shape: Any) -> None:
    workflow, network = alone(piece, shape)

    run = run_of(workflow, [1, 2, 3, 4, 5, 5])

    assert list(Verdict(network, [1, 2, 3, 4, 5])(run)) != []


OTHERS: list[tuple[Piece, Piece]] = [
    (Machine("p", 1, 4, 2), Machine("p", 1, 4, 3)),
    (Machine("p", 1, 4, 2), Machine("p", 2, 4, 2)),
    (Account("p", 3, 3), Account("p", 3, 0)),
    (Orders("p", 2, 3, 5), Orders("p", 0, 3, 5)),
    (Orders("p", 0, 3, 5), Orders("p", 0, 6, 5)),
    (
        Trip("p", (Deed("t0", 0, True), Deed("t1", 2, True)), True),
        Trip("p", (Deed("t0", 0, True), Deed("t1", 3, True)), True),
    ),
    (Loop("p", 1, 20, 4, False, 7), Loop("p", 1, 20, 5, False, 7)),
    (Loop("p", 1, 20, 4, False, 7), Loop("p", 1, 20, 4, True, 7)),
    (Route("p", 2), Route("p", 3)),
    (Nest("p", 3), Nest("p", 4)),
    (Rounds("p", "fork", 20, 2, True, 0), Rounds("p", "fork", 20, 3, True, 0)),
    (Rounds("p", "fork", 20, 2, True, 0), Rounds("p", "loop", 20, 2, True, 0)),
    (Spare("p", 2, "value", False, False), Spare("p", 2, "other", False, False)),
    (Spare("p", 2, "broken", False, False), Spare("p", 2, "worse", False, False)),
    (Spare("p", 2, "value", True, False), Spare("p", 2, "value", False, False)),
]


@pytest.mark.parametrize(("piece", "other"), OTHERS, ids=lambda piece: type(piece).__name__)
def test_a_component_that_does_something_else_is_noticed(piece: Piece, other: Piece) -> None:
    workflow, _ = alone(piece, "plain")
    _, network = alone(other, "plain")
    values = list(range(40))

    run = run_of(workflow, values)

    assert list(Verdict(network, values)(run)) != []


# -- batches that are not whole ------------------------------------------------------------------

WHOLE = Loop("p", 1, 20, 4, True, 0)


def is_pair(*values: int) -> bool:
    """Say yes to two values, and fail on one."""
    if len(values) == 1:
        raise ValueError("there is only one")
    return True


@pytest.mark.parametrize("when", [is_pair, condition(is_pair), ~(~condition(is_pair)).named("other")])
def test_a_batch_is_not_expected_whole_where_a_rule_before_it_could_not_decide_on_a_fact(when: Any) -> None:
    """One of two facts reached the map; the judge saw no failure, as the condition feeds nothing."""
    paired = rule(when=when, then=lambda *values: list(values), name="paired")
    network = Network((Place(WHOLE, None, "batch"),))
    workflow = wired(Workflow("w", INPUT >> paired, [INPUT, INPUT] >> paired), network, "paired")

    run = run_of(workflow, [3])

    assert run.values("paired") == [[3, 3]]
    assert isinstance(run.failures["total_p"].__cause__, BatchFailed)
    assert list(Verdict(network, [[3, 3]])(run)) == []


def test_a_batch_is_not_expected_whole_where_a_turn_before_it_has_failed() -> None:
    """An account makes two facts of one command, and the loop fails on some of them."""
    account, loop = Account("account", 3, 0), Loop("loop", 1, 20, 4, True, 7)
    network = Network((Place(account, None, "plain"), Place(loop, "account", "plain"), Place(WHOLE, "loop", "batch")))
    values = list(range(40))

    run = run_of(wired(Workflow("w"), network, None), values)

    assert "loop.turn" in run.failures
    assert list(Verdict(network, values)(run)) == []


def test_a_batch_is_looked_at_although_a_reactor_before_it_has_failed() -> None:
    network = Network((Place(Machine("machine", 1, 0, 2), None, "plain"), Place(WHOLE, "machine", "batch")))

    run = run_of(wired(Workflow("w"), network, None), list(range(40)))

    assert made_nothing(run) == {"machine.high"}
    assert made_nothing(run) & upstream(run, "to_p") == set()


# -- families ------------------------------------------------------------------------------------


def start(child: Child, **changes: Any) -> Start:
    """Return that *child* is started and waited for."""
    plain = Start(child, 1, 1, "awaited", goes_along=True, is_named=False, is_seen_off=True, is_forgiven=True)
    return replace(plain, **changes)


LEAF = Child("leaf", 3, True, ())
FAMILIES = [
    Family("p", (start(LEAF),)),
    Family("p", (start(LEAF, count=2, is_forgiven=False), start(Child("other", 0, False, ()), fate="left"))),
    Family("p", (start(LEAF, is_seen_off=False, is_forgiven=False), start(LEAF, fate="cancelled", is_seen_off=False))),
    Family("p", (start(Child("middle", 5, True, (start(LEAF, is_named=True), start(LEAF, goes_along=False)))),)),
    *(Family("p", draw_starts("p", Random(seed), 3)) for seed in range(6)),  # noqa: S311
]


def family_of(family: Family, values: list[int], shape: Any) -> tuple[Run, dict[str, Run], Verdict]:
    """Return a run of *family*, and all that it started."""
    workflow, network = alone(family, shape)

    async def main() -> tuple[Run, dict[str, Run]]:
        executors = {
            name: SimulatedExecutor(
                lambda _: 0.0, max_workers=1, blocks=lambda runnable: runnable.component in network.patient
            )
            for name in ("async", "thread")
        }
        async with AsyncRunner(executors=executors, context={"children": network.children}) as runner:
            await runner.start(workflow, id="r")
            for value in values:
                await runner.send("r", value)
            runs: dict[str, Run] = {}
            await runner.wait("r")
            while left := [record.id for record in await runner.runs(limit=1_000) if record.id not in runs]:
                runs |= {name: await runner.wait(name) for name in left}
            return await runner.wait("r"), runs

    return *run_virtually(main()), Verdict(network, values)


@pytest.mark.parametrize("shape", shapes(Family))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_says_what_becomes_of_its_children(family: Family, shape: Any) -> None:
    run, runs, verdict = family_of(family, [1, 2, 7, 9], shape)

    wrong = [*verdict(run), *verdict.children(run, runs)]

    assert wrong == []


@pytest.mark.parametrize("other", [Child("leaf", 3, False, ()), Child("leaf", 4, True, ()), Child("twig", 3, True, ())])
def test_another_child_is_noticed(other: Child) -> None:
    run, runs, _ = family_of(Family("p", (start(LEAF, fate="left"),)), [1, 2, 7, 9], "plain")
    _, network = alone(Family("p", (start(other, fate="left"),)), "plain")
    verdict = Verdict(network, [1, 2, 7, 9])

    wrong = [*verdict(run)], [*verdict.children(run, runs)]

    assert wrong[0] == []
    assert any("its children should become" in each for each in wrong[1])


# -- what is drawn -------------------------------------------------------------------------------


def test_compensations_in_another_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forwards(at: int, undone: Any) -> list[Any]:
        return [undone[before] for before in range(at) if before in undone][:1]

    monkeypatch.setattr(saga, "_before", forwards)
    workflow, network = alone(Trip("p", tuple(Deed(f"t{n}", 2 * (n == 2), True) for n in range(3)), False), "plain")
    values = list(range(9))

    run = run_of(workflow, values)

    assert any("its parts completed in the order" in wrong for wrong in Verdict(network, values)(run))


def test_every_kind_of_piece_is_drawn_in_every_shape_and_behind_others() -> None:
    networks = [draw_network(Random(seed)) for seed in range(800)]  # noqa: S311

    drawn = {(type(place.piece), place.shape) for network in networks for place in network.places}
    sources = {type(place.piece) for network in networks for place in network.places if place.source}

    assert drawn == {(kind, shape) for kind in KINDS for shape in shapes(kind)}
    assert sources == set(KINDS)


UNDRAWN = {
    "queue",
    "max_delay",
    "retryable",
    "non_retryable",
    "scheduled_at",
    "telemetry_prefix",
    "log_level",
    "metadata",
}
"""Fields of policies that make no difference to a crash, or that only a function could say."""


def test_every_option_is_drawn() -> None:
    """A new option of a scenario or a policy that nothing draws is the same every time."""
    scenarios: list[Scenario] = []
    for seed in range(200):
        dice = Random(seed)  # noqa: S311
        scenarios.append(draw_scenario(dice, draw(dice)))
    policies = [policy for scenario in scenarios for _, policy in scenario.rules]

    same = {name for name in Scenario.__struct_fields__ if len({repr(getattr(each, name)) for each in scenarios}) == 1}
    unset = {
        name for name, default in Policy.DEFAULTS.items() if all(getattr(each, name) == default for each in policies)
    }

    assert same == {"dies"}  # that is for the matrix
    assert unset == UNDRAWN
