"""The identity of a function: the same code is the same function, and other code is another one."""

from __future__ import annotations

import functools

from weft import Workflow, step
from weft.core.functions.code_identity import fingerprint


def triple(x: int) -> int:
    return x * 3


def test_the_same_code_is_the_same_function_wherever_it_is_written() -> None:
    """J100a: whatever it is called, and however deep it stands."""

    def thrice(x: int) -> int:
        return x * 3

    class Inner:
        class Innermost:
            @staticmethod
            def method(x: int) -> int:
                return x * 3

    assert fingerprint(triple) == fingerprint(thrice) == fingerprint(Inner.Innermost.method)


def test_a_docstring_and_annotations_are_not_code() -> None:
    def documented(x: float) -> float:
        """Three times as much."""
        return x * 3

    assert fingerprint(documented) == fingerprint(triple)


def test_functions_inside_a_function_count() -> None:
    def one(x: int) -> object:
        return [n + 1 for n in range(x)], (lambda: 1)

    def other(x: int) -> object:
        return [n + 1 for n in range(x)], (lambda: 2)

    assert fingerprint(one) != fingerprint(other)


def test_branches_count() -> None:
    def one(x: int) -> int:
        return 1 if x > 0 else 2

    def other(x: int) -> int:
        return 1 if x >= 0 else 2

    assert fingerprint(one) != fingerprint(other)


def test_what_is_caught_counts() -> None:
    def one(x: int) -> float:
        try:
            return 1 / x
        except ValueError:
            return 0

    def other(x: int) -> float:
        try:
            return 1 / x
        except ZeroDivisionError:
            return 0

    assert fingerprint(one) != fingerprint(other)


def test_the_order_of_a_set_in_the_code_does_not_count() -> None:
    assert fingerprint(lambda x: x in {"a", "b", "c"}) == fingerprint(lambda x: x in {"c", "b", "a"})


def test_parameters_count() -> None:
    assert fingerprint(lambda x: 1) != fingerprint(lambda y: 1)
    assert fingerprint(lambda x: 1) != fingerprint(lambda x, y: 1)
    assert fingerprint(lambda x: 1) != fingerprint(lambda *x: 1)


def test_async_counts() -> None:
    async def one(x: int) -> int:
        return x

    def other(x: int) -> int:
        return x

    assert fingerprint(one) != fingerprint(other)


def test_a_partial_is_its_function_and_what_is_bound() -> None:
    assert fingerprint(functools.partial(triple, 1)) == fingerprint(functools.partial(triple, 1))
    assert fingerprint(functools.partial(triple, 1)) != fingerprint(functools.partial(triple, 2))
    assert fingerprint(functools.partial(triple, x=1)) != fingerprint(functools.partial(triple, x=2))
    assert fingerprint(functools.partial(triple, 1)) != fingerprint(triple)


def test_a_builtin_is_known_by_its_name() -> None:
    assert fingerprint(len) == fingerprint(len)
    assert fingerprint(len) != fingerprint(sum)
    assert fingerprint(list) != fingerprint(dict)


def test_a_method_is_its_function_and_its_class() -> None:
    class One:
        def method(self, x: int) -> int:
            return x * 3

    class Other:
        def method(self, x: int) -> int:
            return x * 3

    assert fingerprint(One().method) == fingerprint(One().method)
    assert fingerprint(One().method) != fingerprint(Other().method)


def test_an_object_that_can_be_called_is_the_code_of_its_class() -> None:
    class Scale:
        def __call__(self, x: int) -> int:
            return x * 3

    class Shift:
        def __call__(self, x: int) -> int:
            return x + 3

    assert fingerprint(Scale()) == fingerprint(Scale())
    assert fingerprint(Scale()) != fingerprint(Shift())


def test_a_constant_without_an_identity_counts_by_its_name() -> None:
    """A step that is bound to a connection or a client has a hash."""
    use = step(lambda x, client: x, name="use")

    assert Workflow("w", use.bind(client=object())).hash == Workflow("w", use.bind(client=object())).hash


def test_a_function_that_refers_to_itself_has_an_identity() -> None:
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    assert len(fingerprint(factorial)) == 16


def test_a_closure_that_is_not_filled_yet_has_an_identity() -> None:
    def outer() -> bytes:
        def inner() -> object:
            return later

        found = fingerprint(inner)
        later = 1
        return found

    assert len(outer()) == 16
