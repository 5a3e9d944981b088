"""Exceptions are values: data in a log, and an exception again when they are read."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from weft import Run, Runner, Workflow, step
from weft.core.functions.identity import digest_of
from weft.errors import CorruptLog, DescribedError
from weft.log import decode, encode
from weft.log.ext_types import Code
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value


class PaymentFailed(ValueError):
    """An exception of an application, which needs more than its message."""

    def __init__(self, order: int, *, why: str) -> None:
        super().__init__(f"order {order}: {why}", order)
        self.order = order


def back(value: Any) -> Any:
    """Write and read *value*."""
    return Values().decode(encode_value(value))


def test_a_class_of_the_application_is_described_and_not_imported() -> None:
    again = back(PaymentFailed(7, why="no money"))

    assert type(again) is DescribedError
    assert (again.kind, again.original_args) == (f"{__name__}.PaymentFailed", ("order 7: no money", 7))
    assert again.detail.bases[0] == "ValueError"


def test_one_that_is_described_is_written_to_the_same_bytes_and_has_the_same_identity() -> None:
    error = PaymentFailed(7, why="no money")

    assert encode_value(back(error)) == encode_value(error)
    assert digest_of(back(error)) == digest_of(error)


def test_what_is_not_data_among_its_arguments_leaves_the_message() -> None:
    again = back(ValueError("no", object))

    assert type(again) is ValueError
    assert str(again) == str(ValueError("no", object))


def test_one_that_contains_itself_is_written() -> None:
    error = ValueError("round")
    error.args = ("round", error)

    assert "round" in str(back(error))


def test_its_traceback_and_its_cause_stay_behind() -> None:
    error = ValueError("no")
    error.__cause__ = KeyError("k")

    again = back(error)

    assert (again.__traceback__, again.__cause__) == (None, None)


def test_no_name_leads_to_anything_that_is_not_an_exception_of_python_or_weft() -> None:
    import msgspec

    for name in ("eval", "os.system", "weft.errors.Iterable", "object", "subprocess.CalledProcessError"):
        data = msgspec.msgpack.encode(msgspec.msgpack.Ext(Code.EXCEPTION, msgspec.msgpack.encode([name, [], "m"])))

        assert type(Values().decode(data)) is DescribedError


def test_one_without_its_parts_is_damaged() -> None:
    import msgspec

    data = msgspec.msgpack.encode(msgspec.msgpack.Ext(Code.EXCEPTION, msgspec.msgpack.encode(["ValueError"])))

    with pytest.raises(CorruptLog):
        Values().decode(data)


def test_a_log_with_an_exception_equals_what_is_read_of_it() -> None:
    run = Workflow("w", step(ValueError, name="make")).run("no")

    again = decode(encode(run.log()))

    assert Run.from_log(again) == run
    assert Run.from_log(again).facts("make")[0].hash == run.facts("make")[0].hash


def test_a_runner_takes_one_as_a_value() -> None:
    def attempt(x: int) -> object:
        return PaymentFailed(x, why="no money")

    def read(error: Exception) -> str:
        return str(error)

    with Runner() as runner:
        assert "order 7" in runner.start(Workflow("w", step(attempt) >> step(read)), 7).result()


def test_its_identity_is_the_same_in_every_process() -> None:
    program = (
        "from pathlib import PurePosixPath; from fractions import Fraction; from ipaddress import ip_address\n"
        "from weft.core.functions.identity import digest_of\n"
        "print(digest_of([ValueError('no', 5), PurePosixPath('a/b'), Fraction(1, 3), ip_address('::1')]).hex())"
    )

    told = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env).stdout
        for env in ({"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}, {"PYTHONPATH": ":".join(sys.path)})
    ]

    assert told[0] == told[1]
