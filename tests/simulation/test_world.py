"""What the simulation draws: everything that Weft has, and verdicts that notice what is wrong."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from courses import Deed, Fragile, Loop, Nest, Route, Trip
from network import KINDS, Network, Place, Verdict, draw_network
from pieces import Account, Gate, Machine, Orders, Piece, Way
from world import draw, wired

from weft import Policy, Run, Workflow
from weft.core.components import saga
from weft.testing import Plot
from weft.testing.plotting import draw_plot

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
]


def alone(piece: Piece, shape: Any) -> tuple[Workflow, Network]:
    """Return *piece* by itself."""
    network = Network((Place(piece, None, shape),))
    return wired(Workflow("w"), network, None), network


def run_of(workflow: Workflow, values: list[Any]) -> Run:
    """Return a run in memory."""
    run = workflow.plan()
    for value in values:
        run.run(value)
    return run


@pytest.mark.parametrize("shape", ["plain", "map", "nested"])
@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: type(piece).__name__)
def test_a_piece_says_what_comes_of_it(piece: Piece, shape: Any) -> None:
    workflow, network = alone(piece, shape)
    values = list(range(40))

    run = run_of(workflow, values)

    assert list(Verdict(network, values)(run)) == []


@pytest.mark.parametrize("shape", ["plain", "map", "nested"])
@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: type(piece).__name__)
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
]


@pytest.mark.parametrize(("piece", "other"), OTHERS, ids=lambda piece: type(piece).__name__)
def test_a_component_that_does_something_else_is_noticed(piece: Piece, other: Piece) -> None:
    workflow, _ = alone(piece, "plain")
    _, network = alone(other, "plain")
    values = list(range(40))

    run = run_of(workflow, values)

    assert list(Verdict(network, values)(run)) != []


def test_compensations_in_another_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forwards(at: int, undone: Any) -> list[Any]:
        return [undone[before] for before in range(at) if before in undone][:1]

    monkeypatch.setattr(saga, "_before", forwards)
    workflow, network = alone(Trip("p", tuple(Deed(f"t{n}", 2 * (n == 2), True) for n in range(3)), False), "plain")
    values = list(range(9))

    run = run_of(workflow, values)

    assert any("its parts completed in the order" in wrong for wrong in Verdict(network, values)(run))


def test_every_kind_of_piece_is_drawn_in_every_shape_and_behind_others() -> None:
    networks = [draw_network(Random(seed)) for seed in range(400)]  # noqa: S311

    shapes = {(type(place.piece), place.shape) for network in networks for place in network.places}
    sources = {type(place.piece) for network in networks for place in network.places if place.source}

    assert shapes == {(kind, shape) for kind in KINDS for shape in ("plain", "map", "nested")}
    assert sources == set(KINDS)


UNDRAWN = {"max_delay", "retryable", "non_retryable", "fallback", "compensation", "scheduled_at", "idempotency_key"}
UNDRAWN |= {"telemetry_prefix", "log_level", "metadata"}
"""What policies have that makes no difference to a crash, or that only a function could say."""


def test_every_option_is_drawn() -> None:
    """What draws a new option of a plot or a policy can be forgotten; then it is the same every time."""
    plots: list[Plot] = []
    for seed in range(200):
        dice = Random(seed)  # noqa: S311
        plots.append(draw_plot(dice, draw(dice)))
    policies = [policy for plot in plots for _, policy in plot.rules]

    same = {name for name in Plot.__struct_fields__ if len({repr(getattr(each, name)) for each in plots}) == 1}
    unset = {
        name for name, default in Policy.DEFAULTS.items() if all(getattr(each, name) == default for each in policies)
    }

    assert same == {"dies"}  # that is for the matrix
    assert unset == UNDRAWN
