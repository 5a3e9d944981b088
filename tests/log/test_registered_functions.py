"""A class whose instances are not their fields is a value once the application says how to write and read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weft import Runner, Workflow, step
from weft.core.functions.identity import digest_of
from weft.errors import CorruptLog, DuplicateName, InvalidComponent, InvalidOption, UnencodableValue
from weft.log import Record, register
from weft.log.class_registry import _registered
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value
from weft.stores import SQLiteStore


class Money:
    """An amount, which is neither a dataclass nor anything else that Weft knows."""

    def __init__(self, cents: int) -> None:
        self._cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self._cents == other._cents

    def __hash__(self) -> int:
        return hash(self._cents)

    @property
    def cents(self) -> int:
        """The amount."""
        return self._cents


register(Money, "shop.Money", encode=lambda money: money.cents, decode=Money)


def test_it_comes_back_through_the_functions() -> None:
    assert Values().decode(encode_value({"paid": [Money(5)]})) == {"paid": [Money(5)]}


def test_its_identity_is_its_data() -> None:
    assert digest_of(Money(5)) == digest_of(Money(5)) != digest_of(Money(6))


def test_a_process_that_does_not_know_it_reads_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_value(Money(5))
    monkeypatch.delitem(_registered, "shop.Money")

    again = Values().decode(data)

    assert again == Record("shop.Money", {"encoded": 5})
    assert encode_value(again) == data


def test_it_works_as_a_decorator_and_for_an_exception() -> None:
    @register(encode=lambda error: error.args[0], decode=lambda code: Refused(code))  # noqa: PLW0108 - it is not defined yet
    class Refused(Exception):
        pass

    again = Values().decode(encode_value(Refused(402)))

    assert (type(again), again.args) == (Refused, (402,))


def test_a_runner_registers_it_too(tmp_path: Path) -> None:
    class Level:
        def __init__(self, height: int) -> None:
            self.height = height

    workflow = Workflow("w", step(Level, name="make") >> step(lambda level: level.height, name="read"))
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        runner.register(Level, encode=lambda level: level.height, decode=Level)

        assert runner.start(workflow, 3).result() == 3
        with pytest.raises(InvalidOption, match="one class"):
            runner.register(workflow, encode=repr, decode=eval)
        with pytest.raises(InvalidComponent, match="decode= is missing"):
            runner.register(Level, encode=repr)


@pytest.mark.parametrize(
    ("kind", "functions", "says"),
    [
        (Money, {"encode": repr}, "decode= is missing"),
        (Money, {"decode": Money}, "encode= is missing"),
        (Money, {"encode": 5, "decode": Money}, "encode=5 is not a function"),
        (Money(1), {"encode": repr, "decode": Money}, "is not a class"),
        (int, {"encode": str, "decode": int}, "Weft writes an int by itself"),
        (Path, {"encode": str, "decode": Path}, "Path"),
        (object, {"encode": str, "decode": str}, "class of your own"),
        (Money, {}, None),
        (dict, {}, "encode=..., decode=..."),
    ],
)
def test_nonsense_is_refused_where_it_is_registered(kind: Any, functions: dict[str, Any], says: str | None) -> None:
    if says is None:
        assert register(kind, "shop.Money", **functions) is kind
        return
    with pytest.raises(InvalidComponent, match=says):
        register(kind, **functions)


def test_a_name_is_not_taken_twice() -> None:
    class Other:
        pass

    with pytest.raises(DuplicateName, match=r"shop\.Money"):
        register(Other, "shop.Money", encode=repr, decode=lambda _: Other())


def test_a_function_that_fails_is_named_with_the_place() -> None:
    class Torn:
        pass

    @register(encode=lambda torn: torn, decode=lambda data: data)
    class Same:
        pass

    register(Torn, encode=lambda torn: torn.missing, decode=lambda _: Torn())

    with pytest.raises(UnencodableValue, match="encode= fails with AttributeError") as caught:
        encode_value([Torn()])
    assert caught.value.path == "value[0]"
    with pytest.raises(UnencodableValue, match="encode= returns a"):
        encode_value(Same())


def test_what_it_returns_must_be_data() -> None:
    class Deep:
        pass

    register(Deep, encode=lambda _: {"inner": object()}, decode=lambda _: Deep())

    with pytest.raises(UnencodableValue) as caught:
        encode_value(Deep())

    assert caught.value.path == "value.encoded['inner']"


def test_a_decode_that_fails_or_returns_something_else_is_named() -> None:
    class Lost:
        pass

    register(Lost, "lost", encode=lambda _: 1, decode=lambda data: data.missing)
    with pytest.raises(CorruptLog, match="decode= of 'lost' fails with AttributeError"):
        Values().decode(encode_value(Lost()))

    register(Lost, "lost", encode=lambda _: 1, decode=lambda data: data)
    with pytest.raises(CorruptLog, match="returned an int"):
        Values().decode(encode_value(Lost()))
