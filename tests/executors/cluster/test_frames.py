"""The bytes that a runner and the workers of a cluster exchange."""

from __future__ import annotations

import contextvars
import dataclasses
from typing import Any

import pytest

from weft.calling import attempt
from weft.errors import DescribedError, NotTransferable
from weft.executors.cluster.executor import ClusterExecutor
from weft.executors.cluster.frames import pack, pack_outcome, report_frame, report_in, unpack, unpack_outcome
from weft.executors.cluster.remote import serve, stream
from weft.executors.transfer import is_sign_of_life, sign_of_life, ticket_of
from weft.testing.contracts.owner import runnable_of
from weft.testing.contracts.steps import double, refuse, whoami


@dataclasses.dataclass
class Item:
    """A class of the application."""

    price: int


class Declined(Exception):
    """An exception of the application."""


def priced(item: Item) -> Item:
    """Return an item at twice the price."""
    return Item(item.price * 2)


def untyped(item):  # type: ignore[no-untyped-def]
    """Return what it gets, without an annotation."""
    return item


def decline(x: object) -> None:
    """Raise an exception of the application."""
    raise Declined("no money", x)


def a_thing(_: object) -> object:
    """Return something that is not data."""
    return object()


def nothing(*_: Any) -> None:
    """Do nothing."""


def ran(runnable: Any) -> Any:
    """Return the outcome of *runnable*, run in another context."""
    return contextvars.copy_context().run(attempt, runnable)


def crossed(function: Any, value: Any) -> Any:
    """Return the outcome of *function* on *value*, with both ways as bytes."""
    runnable = runnable_of(function, value)
    there = unpack(pack(7, runnable), nothing, nothing)
    return unpack_outcome(runnable, pack_outcome(7, ran(there)))


@pytest.mark.parametrize("value", [1, "a", (1, 2), {"a": {1, 2}}, b"x", None])
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert crossed(untyped, value).result == value


def test_a_class_is_known_by_the_annotations_of_the_function() -> None:
    assert crossed(priced, Item(2)).result == Item(4)


def test_a_class_that_is_not_known_there_is_named() -> None:
    with pytest.raises(NotTransferable, match=r"Item is not known on the other side.*annotation"):
        unpack(pack(7, runnable_of(untyped, Item(2))), nothing, nothing)


def test_an_argument_that_is_not_data_is_named() -> None:
    with pytest.raises(NotTransferable, match="its argument 1, an object"):
        pack(7, runnable_of(double, object()))


def test_a_function_without_a_name_is_refused_with_what_to_do() -> None:
    with pytest.raises(NotTransferable, match="top level of a module"):
        pack(7, runnable_of(lambda x: x, 1))


def test_a_result_that_is_not_data_fails_the_attempt() -> None:
    back = crossed(a_thing, 1)

    assert isinstance(back.error, NotTransferable)
    assert "its result, an object" in str(back.error)


def test_an_exception_keeps_its_class_if_that_is_imported_here() -> None:
    builtin, own = crossed(refuse, "tea").error, crossed(decline, "tea").error

    assert (type(builtin), builtin.args) == (LookupError, ("no such thing", "tea"))
    assert (type(own), own.args) == (Declined, ("no money", "tea"))
    assert own.__notes__[0].startswith("on the cluster:")


def test_an_exception_of_a_class_that_is_not_here_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Declined, "__module__", "some.module.elsewhere")

    error = crossed(decline, "tea").error

    assert type(error) is DescribedError
    assert "Declined" in str(error)


def test_the_step_knows_what_it_is() -> None:
    runnable = runnable_of(whoami, "x")

    assert crossed(whoami, "x").result[1:3] == (runnable.component, runnable.attempt)


def test_the_kinds_of_frames_are_told_apart() -> None:
    outcome = pack_outcome(7, ran(runnable_of(double, 1)))

    assert report_in(report_frame(7, "progress", 1, 2, "")) == ("progress", 1, 2, "")
    assert (report_in(outcome), report_in(sign_of_life(7))) == (None, None)
    assert [is_sign_of_life(frame) for frame in (sign_of_life(7), outcome, report_frame(7))] == [True, False, False]
    assert ticket_of(outcome) == ticket_of(report_frame(7)) == 7


def test_a_parcel_is_answered_in_order_and_whole() -> None:
    frames = [pack(ticket, runnable_of(double, ticket)) for ticket in range(50)]
    sent: list[bytes] = []

    serve(frames, sent.extend)

    assert [ticket_of(frame) for frame in sent] == list(range(50))
    assert [ticket_of(frame) for found in stream(frames) for frame in found] == list(range(50))


def test_an_executor_without_places_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity=0"):
        ClusterExecutor(capacity=0)
