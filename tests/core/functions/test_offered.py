"""Functions that this process has offered are known by identity, and nothing is kept alive by that."""

from __future__ import annotations

import functools
import gc
import operator
import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType, ModuleType
from typing import Any

import pytest

from weft import FSM, Aggregate, ProcessManager, Workflow, accumulator, condition, context, rule, step
from weft.core.functions import offered
from weft.core.functions.offered import is_offered, offer, offer_module
from weft.policy import DEFAULT, Policy


def fresh() -> Callable[..., Any]:
    """Return a function that was not offered."""
    return lambda x: x


class Service:
    """An object with methods."""

    def shift(self, x: int) -> int:
        return x

    def other(self, x: int) -> int:
        return x

    @classmethod
    def made(cls, x: int) -> int:
        return x


@dataclass(frozen=True, slots=True)
class Scale:
    """An object that can be called, and that no weak reference can point to."""

    factor: int

    def __call__(self, x: int) -> int:
        return self.factor * x

    def shift(self, x: int) -> int:
        return self.factor + x


service, triple, quadruple = Service(), Scale(3), Scale(4)


# -- offering ------------------------------------------------------------------------------------

MAKERS: dict[str, Callable[[Any], Any]] = {
    "a step": lambda call: step(call, name="s"),
    "a condition": lambda call: condition(call, name="c"),
    "a condition of a rule": lambda call: rule(when=call, then=lambda x: x, name="r"),
    "a reaction": lambda call: rule(when=lambda x: x, then=call, name="r"),
    "an initial state": lambda call: accumulator(lambda a, x: a, init=call, name="a"),
    "the initial state of an aggregate": lambda call: Aggregate("a", init=call),
    "the initial state of a process": lambda call: ProcessManager("p", init=call),
    "the key of a process": lambda call: ProcessManager("p", init=0, key=call),
    "a hook": lambda call: step(lambda x: x, name="s").before(call),
    "a constant": lambda call: step(lambda x, f: f(x), name="s").bind(f=call),
    "a constant in containers": lambda call: step(lambda x, f: x, name="s").bind(f=[{"a": (call,)}]),
    "a default of the context": lambda call: step(lambda x, f=context("f", default=call): x, name="s"),  # type: ignore[misc]
    "the function of a partial": lambda call: step(functools.partial(call), name="s"),
    "an argument of a partial": lambda call: step(functools.partial(lambda f, x: f(x), call), name="s"),
    "a keyword of a partial": lambda call: step(functools.partial(lambda x, f: f(x), f=call), name="s"),
    "a backoff": lambda call: Policy(backoff=call),
    "a fallback": lambda call: Policy(fallback=call),
    "a compensation": lambda call: Policy(on_failure="compensate", compensation=call),
    "a question about errors": lambda call: Policy(retryable=call),
    "an idempotency key": lambda call: Policy(idempotency_key=call),
    "metadata": lambda call: Policy(metadata={"tell": call}),
    "a matcher": lambda call: Workflow("w", step(abs)).with_policies([(call, Policy())]),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_to_make_something_of_a_function_is_to_offer_it(maker: str) -> None:
    call = fresh()
    assert not is_offered(call)

    made = MAKERS[maker](call)

    assert is_offered(call), made


def test_a_class_that_names_an_event_is_offered() -> None:
    class Opened:
        """An event."""

    class Closed:
        """Another one."""

    account = Aggregate("account", init=0)
    account.event(Opened)(lambda state, event: state)
    FSM("door", initial="open", states={"open": {Closed: "closed"}, "closed": {}})

    assert is_offered(Opened)
    assert is_offered(Closed)


def test_a_class_of_exceptions_in_a_policy_is_only_compared() -> None:
    class Odd(Exception):
        """An error."""

    Policy(max_retries=1, retryable=(Odd,), non_retryable=(Odd,))

    assert not is_offered(Odd)


def test_what_nothing_was_made_of_is_not_offered() -> None:
    for call in (os.system, eval, os.path.join, Service, service.shift, "".join, operator.methodcaller("x")):
        assert not is_offered(call), call


@pytest.mark.parametrize(
    "call",
    [len, abs, operator.concat, str.title, int.__neg__, dict.fromkeys, os.path.splitext, Service.made, Service.shift],
    ids=lambda call: call.__qualname__,
)
def test_functions_of_every_kind_can_be_offered(call: Callable[..., Any]) -> None:
    offer(call)

    assert is_offered(call)


def test_a_method_is_offered_of_one_object() -> None:
    mine, other = Service(), Service()

    offer(mine.shift)

    assert is_offered(mine.shift)
    assert not is_offered(mine.other)
    assert not is_offered(other.shift)
    assert not is_offered(MethodType(lambda self, x: x, mine))


def test_a_wrapper_does_not_offer_what_it_has_the_name_of() -> None:
    def dangerous(x: int) -> int:
        return x

    wrapper = functools.wraps(dangerous)(lambda x: x)

    step(wrapper)

    assert is_offered(wrapper)
    assert not is_offered(dangerous)


def test_what_cannot_be_held_weakly_is_offered_under_its_name() -> None:
    with pytest.raises(TypeError):
        weakref.ref(triple)  # type: ignore[call-overload]

    offer(triple)
    offer(quadruple.shift)
    offer(Scale(5))  # has no name
    offer(MethodType(functools.partial(max), triple))  # nor has this one

    assert is_offered(triple)
    assert not is_offered(quadruple)
    assert is_offered(quadruple.shift)
    assert not is_offered(triple.shift)
    assert not is_offered(Scale(3))


def test_data_that_contains_itself_can_be_looked_through() -> None:
    call = fresh()
    data: list[Any] = [call]
    data += [data, {"all": data}]

    offer(data)

    assert is_offered(call)


def test_a_module_is_offered_as_a_whole_and_not_by_its_name() -> None:
    module, twin = ModuleType("application"), ModuleType("application")

    offer_module(module)

    assert is_offered(module)
    assert not is_offered(twin)


# -- keeping nothing -----------------------------------------------------------------------------


def test_what_was_offered_is_not_kept_alive() -> None:
    class Held:
        """Something that is gone when nothing refers to it."""

        def method(self, x: int) -> int:
            return x

        def __call__(self, x: int) -> int:
            return x

    gc.collect()
    before = len(offered._held), len(offered._places)
    held, function, module = Held(), fresh(), ModuleType("gone")
    kinds: list[Any] = [held, held.method, function, functools.partial(function, held), Held, module, Held.method]
    for call in kinds:
        (offer_module if call is module else offer)(call)
    assert len(offered._held) > before[0]
    gone = [weakref.ref(thing) for thing in (held, function, module, Held)]

    del held, function, module, Held, kinds, call
    gc.collect()

    assert [ref() for ref in gone] == [None] * 4
    assert len(offered._held) <= before[0]
    assert len(offered._places) == before[1]


def test_a_function_that_was_offered_for_a_method_goes_with_its_object_or_without() -> None:
    mine = Service()
    gc.collect()
    before = len(offered._held)
    offer(MethodType(lambda self, x: x, mine))
    gc.collect()

    assert len(offered._held) <= before, "the object lives on, its function does not"


def test_many_workflows_leave_nothing_behind() -> None:
    gc.collect()
    before = len(offered._held), len(offered._places)

    for number in range(300):
        work = step(lambda x, n=number: x + n, name="work")
        Workflow("w", work).with_policies([(DEFAULT, Policy(max_retries=1, backoff=lambda n: 0.0))]).run(1)
    del work
    gc.collect()

    assert len(offered._held) <= before[0]
    assert len(offered._places) == before[1]


def test_threads_that_offer_and_forget_do_not_disturb_each_other() -> None:
    kept: list[Callable[..., Any]] = []
    lost: list[Callable[..., Any]] = []

    def work() -> None:
        for _ in range(500):
            mine = [fresh() for _ in range(4)]
            for call in mine:
                offer(call)
            lost.extend(call for call in mine if not is_offered(call))
            kept.append(mine[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert not lost
    assert len(kept) == 2_000
    assert all(is_offered(call) for call in kept)
