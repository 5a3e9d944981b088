"""Arrays and scalars of NumPy are values where NumPy is installed; nothing else imports it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from weft import Run, Runner, Workflow, step
from weft.core.functions.identity import digest_of
from weft.errors import CorruptLog, UnencodableValue, UnidentifiableValue
from weft.log import Record, decode, encode
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value


def test_nothing_but_an_array_imports_numpy() -> None:
    program = (
        "import sys, weft, weft.log\n"
        "from weft.core.functions.identity import digest_of\n"
        "run = weft.Workflow('w', weft.step(abs)).run(-5)\n"
        "weft.Run.from_log(weft.log.decode(weft.log.encode(run.log())))\n"
        "digest_of([1, ValueError('x')])\n"
        "assert 'numpy' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_without_numpy_an_array_is_a_record_that_is_written_to_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    record = Record("numpy.ndarray", {"dtype": "<i8", "data": bytes(16), "shape": [2]})
    values = Values()

    again = values.decode(encode_value(record))

    assert again == record
    assert list(values.unknown) == ["numpy.ndarray"]


@pytest.fixture
def np() -> Any:
    return pytest.importorskip("numpy")


def samples(np: Any) -> list[Any]:
    """Return values of all kinds that NumPy has and a log can hold."""
    return [
        *(np.float64(1.5), np.float32(-0.0), np.float16("nan"), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True)),
        *(np.complex64(1 + 2j), np.str_("a\0"), np.str_(""), np.bytes_(b"a\0"), np.bytes_(b"")),
        *(np.datetime64("2026-01-01T00:00", "25s"), np.datetime64("NaT", "s"), np.timedelta64(3, "D")),
        *(np.array([1, 2], ">i2"), np.array([]), np.zeros((0, 3)), np.array(5), np.arange(6).reshape(2, 3).T),
        *(np.array(["a", ""]), np.array([b"x"]), np.array(["2026", "NaT"], "M8[us]"), np.ones((2, 2), bool)),
    ]


def test_an_array_or_a_scalar_comes_back_as_it_was(np: Any) -> None:
    for value in samples(np):
        data = encode_value([value])

        (again,) = Values().decode(data)

        assert (type(again), again.dtype, again.shape) == (type(value), value.dtype, value.shape)
        assert again.tobytes() == value.tobytes()
        assert encode_value([again]) == data
        assert digest_of(again) == digest_of(value)


def test_an_array_that_was_read_can_be_changed(np: Any) -> None:
    again = Values().decode(encode_value(np.zeros(3)))

    again[0] = 1.0

    assert again.sum() == 1.0


def test_a_transposed_array_is_another_value(np: Any) -> None:
    square = np.arange(4).reshape(2, 2)

    assert encode_value(square.T) != encode_value(square)
    assert digest_of(square.T) != digest_of(square)


def test_objects_records_and_sizes_of_this_machine_are_refused(np: Any) -> None:
    for value in (np.array([object()]), np.zeros(2, [("a", "i4")]), np.longdouble(1), np.ma.masked_array([1])):
        with pytest.raises(UnencodableValue, match=r"at value\['x'\]"):
            encode_value({"x": value})
    with pytest.raises(UnidentifiableValue, match="dtype object"):
        digest_of(np.array([object()]))


def test_an_array_with_wrong_fields_is_damaged(np: Any) -> None:
    right = {"dtype": "<i8", "data": bytes(16), "shape": [2]}
    log = Workflow("w", step(lambda x: x, name="same")).run(np.arange(2)).log()
    assert decode(encode(log))

    for wrong in ({"dtype": "O"}, {"dtype": "<i8,<i8"}, {"data": bytes(8)}, {"shape": [-2]}, {"shape": [1 << 80]}):
        with pytest.raises((CorruptLog, ValueError, TypeError)):
            Values().decode(encode_value(Record("numpy.ndarray", {**right, **wrong})))


def test_a_run_with_arrays_equals_what_is_read_of_it(np: Any) -> None:
    run = Workflow("w", step(lambda x: x * 2, name="double") >> step(np.sum, name="sum")).run(np.arange(3))

    assert Run.from_log(decode(encode(run.log()))) == run


def test_a_runner_takes_arrays_and_scalars(np: Any) -> None:
    def total(rows: Any) -> Any:
        return rows.sum()

    with Runner() as runner:
        result = runner.start(Workflow("w", step(lambda x: x + 1, name="more") >> step(total)), np.arange(3)).result()

    assert (result, type(result)) == (6, np.int64)
