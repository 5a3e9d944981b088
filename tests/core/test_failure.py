"""Failures: recorded, not raised unless asked, and told again after a restore."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from weft import Policy, Run, Workflow, accumulator, each, reduce, step
from weft.core.failure import describe
from weft.errors import BatchFailed, DescribedError, ExecutionError, NotACollection, StepFailed

broken = step(lambda x: x / 0, name="broken")
keep = step(lambda x: x, name="keep")


class PaymentDeclined(Exception):
    """An exception of an application."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code

    def __str__(self) -> str:
        return f"declined with {self.args[0]}: {self.args[1]}"


def raising(error: BaseException) -> Workflow:
    def fail(_: object) -> None:
        raise error

    return Workflow("w", step(fail))


def restored(run: Run) -> Run:
    return Run.from_log(run.log())


# -- recorded ------------------------------------------------------------------------------------


def test_a_failure_is_recorded_and_not_raised() -> None:
    run = Workflow("w", broken, keep).run(1)

    failure = run.failures["broken"]

    assert run.failed
    assert isinstance(failure, StepFailed)
    assert (failure.component, failure.attempts) == ("broken", 1)
    assert str(failure) == "'broken' failed: ZeroDivisionError: division by zero"
    assert run.results() == {"keep": 1}


def test_a_failure_closes_nothing() -> None:
    run = Workflow("w", step(lambda x: 1 / x, name="invert")).run(0)

    run.run(2)

    assert run.values() == [0.5]
    assert run.failed


def test_a_run_without_a_failure_has_none() -> None:
    run = Workflow("w", keep).run(1)

    assert run.failures == {}
    assert not run.failed


def test_the_exception_of_the_user_is_the_cause() -> None:
    error = PaymentDeclined(402, "no money")

    run = raising(error).run(1)

    assert run.failures["fail"].__cause__ is error
    assert str(run.failures["fail"]) == "'fail' failed: PaymentDeclined: declined with 402: no money"


def test_the_last_failure_of_a_component_is_kept() -> None:
    def refuse(x: int) -> None:
        raise ValueError(f"not {x}")

    run = Workflow("w", step(refuse)).run(1)
    run.run(2)

    assert list(run.failures) == ["refuse"]
    assert str(run.failures["refuse"].__cause__) == "not 2"


def test_every_failure_stays_in_the_log() -> None:
    run = Workflow("w", broken).run(1)
    run.run(2)

    failed = [event for event in run.log() if hasattr(event, "error")]

    assert len(failed) == 2


def test_an_exception_whose_text_fails_is_recorded() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    run = raising(Broken()).run(1)

    assert "Broken" in str(run.failures["fail"])
    assert isinstance(run.failures["fail"].__cause__, Broken)


def _broken(name: str, broken: type[BaseException] = RuntimeError, *, bases: tuple[type, ...] = (Exception,)) -> Any:
    """Return a class of exceptions whose attribute or method *name* raises."""

    def breaks(*_: object) -> Any:
        raise broken(f"{name} is broken")

    methods = ("__str__", "__repr__", "__len__", "__bool__", "__eq__", "__hash__", "__reduce__", "__format__")
    return type("Nasty", bases, {name: breaks if name in methods else property(breaks, breaks)})


NASTY = [
    *((name, RuntimeError) for name in ("__str__", "__repr__", "__len__", "__bool__", "__eq__", "__hash__")),
    *((name, RuntimeError) for name in ("__notes__", "__cause__", "__context__", "__suppress_context__", "__class__")),
    *((name, RuntimeError) for name in ("args", "__traceback__", "__dict__", "__reduce__", "add_note")),
    *((name, SystemExit) for name in ("__str__", "__notes__", "__class__")),
    *((name, asyncio.CancelledError) for name in ("__str__", "__notes__")),
    *((name, RecursionError) for name in ("__str__", "__notes__")),
    *((name, GeneratorExit) for name in ("__str__", "__notes__")),
]


@pytest.mark.parametrize("base", [Exception, KeyError, OSError])
@pytest.mark.parametrize(("name", "broken"), NASTY)
def test_an_exception_that_cannot_say_what_it_is_fails_its_step_once(
    name: str, broken: type[BaseException], base: type[Exception]
) -> None:
    calls: list[int] = []
    error = _broken(name, broken, bases=(base,))("text", "more")

    def fail(x: int) -> None:
        calls.append(x)
        raise error

    run = Workflow("w", step(fail)).plan(1)
    [runnable] = run.prepare()
    run.apply(runnable.execute())
    detail = run.log()[-1].error

    assert (calls, list(run.failures)) == ([1], ["fail"])
    assert detail.type.endswith("Nasty")
    assert base.__name__ in detail.bases
    assert "Nasty" in detail.traceback
    assert "raise error" in detail.traceback
    assert restored(run).failures.keys() == {"fail"}


@pytest.mark.parametrize(("name", "broken"), NASTY)
def test_an_exception_that_cannot_say_what_it_is_is_handled_by_policies(name: str, broken: type[BaseException]) -> None:
    calls: list[int] = []

    def fail(x: int) -> None:
        calls.append(x)
        raise _broken(name, broken)("text")

    flow = Workflow("w", step(fail))
    again = flow.with_policies([("fail", Policy(max_retries=1, retryable=(Exception,)))])
    passed = flow.with_policies([("fail", Policy(on_failure="skip"))])

    assert again.run(1).failed
    assert calls == [1, 1]
    assert passed.run(1).skipped == ["fail"]
    assert asyncio.run(again.arun(1)).failed


def test_what_a_broken_exception_can_say_is_kept() -> None:
    first = describe(_broken("__notes__")("the message"))
    second = describe(_broken("__str__")("the message"))

    assert first.message == "the message"
    said, besides = first.traceback.splitlines()[-2:]
    assert said.endswith("Nasty: the message")
    assert "RuntimeError" in besides  # since 3.13 Python itself says so
    assert second.message == "<Nasty whose text fails with RuntimeError>"


def test_an_exception_whose_class_cannot_say_its_name_is_recorded() -> None:
    class Meta(type):
        @property
        def __module__(cls) -> str:  # type: ignore[override]
            raise RuntimeError("nowhere")

    class Nameless(Exception, metaclass=Meta):
        pass

    assert describe(Nameless("x")).type.endswith("Nameless")


def test_text_that_is_not_quite_a_str_is_written_as_one() -> None:
    class Text(str):
        __slots__ = ()

        def isascii(self) -> bool:
            raise RuntimeError("no")

    class Said(Exception):
        def __str__(self) -> str:
            return Text("hello")

    class Wrong(Exception):
        def __str__(self) -> str:
            return 7  # type: ignore[return-value]  # noqa: PLE0307

    assert type(describe(Said()).message) is str
    assert describe(Said()).message == "hello"
    assert describe(Wrong()).message == f"<{Wrong.__qualname__} whose text fails with TypeError>"


def test_a_message_is_kept_as_far_as_anyone_would_read_it() -> None:
    run = raising(ValueError("x" * 1_000_000)).run(1)
    detail = run.log()[-1].error

    assert detail.message == "x" * 19_950 + "… and 980050 more characters"
    assert len(detail.traceback) <= 20_000
    assert str(restored(run).failures["fail"].__cause__) == detail.message


def test_a_group_with_a_broken_exception_in_it_is_recorded() -> None:
    run = raising(ExceptionGroup("several", [ValueError("a"), _broken("__notes__")("b")])).run(1)

    assert run.log()[-1].error.message == "several (2 sub-exceptions)"
    assert run.failed


def test_the_ctrl_c_of_a_person_is_not_taken_for_a_broken_exception() -> None:
    for name in ("__str__", "__notes__"):
        with pytest.raises(KeyboardInterrupt):
            describe(_broken(name, KeyboardInterrupt)("x"))


def test_an_exception_that_is_false_is_a_failure_however_it_is_applied() -> None:
    class Empty(Exception):
        def __len__(self) -> int:
            return 0

    run = raising(Empty("nothing in it")).plan(1)
    [runnable] = run.prepare()
    run.apply(runnable.execute())

    assert str(run.failures["fail"]) == f"'fail' failed: {Empty.__name__}: nothing in it"


def test_an_exception_that_is_false_is_still_the_cause() -> None:
    class Empty(Exception):
        def __len__(self) -> int:
            return 0

    error = Empty("nothing in it")

    assert raising(error).run(1).failures["fail"].__cause__ is error


def test_an_exception_group_is_recorded() -> None:
    run = raising(ExceptionGroup("several", [ValueError("a"), TypeError("b")])).run(1)

    assert isinstance(run.failures["fail"].__cause__, ExceptionGroup)
    assert "ValueError: a" in run.log()[-1].error.traceback


def test_stop_iteration_is_a_failure_like_any_other() -> None:
    run = raising(StopIteration("early")).run(1)

    assert isinstance(run.failures["fail"].__cause__, StopIteration)


# -- raised when asked ---------------------------------------------------------------------------


def test_a_failure_is_raised_when_asked_after_everything_else_has_run() -> None:
    ran: list[int] = []

    with pytest.raises(StepFailed, match="'broken' failed: ZeroDivisionError: division by zero") as caught:
        Workflow("w", broken, keep >> step(ran.append, name="note")).run(1, raise_on_failure=True)

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert ran == [1]


@pytest.mark.parametrize("parallel", [1, 2])
def test_the_first_failure_is_raised(parallel: int) -> None:
    run = Workflow("w", broken >> keep, keep.named("other") >> broken.named("later")).plan(1)

    with pytest.raises(StepFailed, match="'broken' failed"):
        run.react_until_satisfied(parallel=parallel, raise_on_failure=True)

    assert set(run.failures) == {"broken", "later"}


def test_a_failure_is_raised_by_the_asynchronous_run_too() -> None:
    with pytest.raises(StepFailed, match="'broken' failed"):
        asyncio.run(Workflow("w", broken).arun(1, raise_on_failure=True))


def test_nothing_is_raised_where_nothing_failed() -> None:
    assert Workflow("w", keep).run(1, raise_on_failure=True).output == 1


def test_a_step_failure_can_be_caught_by_its_kind() -> None:
    with pytest.raises(ExecutionError):
        Workflow("w", broken).run(1, raise_on_failure=True)


# -- after a restore -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("key"),
        ZeroDivisionError("division by zero"),
        TimeoutError("late"),
        FileNotFoundError(2, "No such file or directory", "missing.txt"),
        ConnectionResetError("gone"),
        StopIteration("early"),
        AssertionError(),
        NotImplementedError("later"),
        NotACollection("each needs a list"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_cause_keeps_its_type_if_it_is_built_in_or_ours(error: Exception) -> None:
    run = raising(error).run(1)

    before, after = run.failures["fail"], restored(run).failures["fail"]

    assert type(after.__cause__) is type(error)
    assert str(after) == str(before)
    assert str(after.__cause__) == str(error)


@pytest.mark.parametrize(
    "error",
    [
        PaymentDeclined(402, "no money"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        ExceptionGroup("several", [ValueError("a")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_other_cause_is_described(error: Exception) -> None:
    """No constructor is called with what it was not made for; the text stays."""
    run = raising(error).run(1)

    cause = restored(run).failures["fail"].__cause__

    assert isinstance(cause, DescribedError | type(error))
    assert str(error) in str(cause)


def test_a_described_cause_says_what_it_was() -> None:
    run = raising(PaymentDeclined(402, "no money")).run(1)

    cause = restored(run).failures["fail"].__cause__

    assert isinstance(cause, DescribedError)
    assert cause.kind.endswith("PaymentDeclined")
    assert cause.message == "declined with 402: no money"


def test_a_type_that_only_looks_built_in_is_described() -> None:
    class ValueError(Exception):  # noqa: A001
        """Not the builtin."""

    cause = restored(raising(ValueError("no")).run(1)).failures["fail"].__cause__

    assert isinstance(cause, DescribedError)


def test_a_failed_batch_is_told_again() -> None:
    run = Workflow("w", each(broken) >> reduce(lambda acc, x: acc, init=0, name="total")).run([1])

    after = restored(run).failures

    assert list(after) == list(run.failures) == ["broken", "total"]
    assert isinstance(after["total"].__cause__, BatchFailed)


def test_a_failure_of_before_is_not_raised_again() -> None:
    """A caller that asks wants to know what was done since."""
    run = restored(Workflow("w", step(lambda x: 1 / x, name="invert")).run(0))

    assert run.run(2, raise_on_failure=True).output == 0.5
    with pytest.raises(StepFailed, match="'invert' failed"):
        run.run(0, raise_on_failure=True)


def test_a_failed_fold_is_told_again_and_the_state_is_as_it_was() -> None:
    total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
    run = Workflow("w", total).run(1)
    run.run("text")

    after = restored(run).run(2)

    assert isinstance(after.failures["total"].__cause__, TypeError)
    assert after.state_of("total") == 3


def test_a_message_that_is_not_proper_text_can_be_written() -> None:
    detail = describe(OSError("no such file: caf\udce9 in ångström"))

    assert detail.message == "no such file: caf\\udce9 in ångström"
    assert "\udce9" not in detail.traceback
