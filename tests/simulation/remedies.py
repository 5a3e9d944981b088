"""
Steps that fail, and what is done about it: dead letters that get another input, fallbacks, compensations.

As those of ``pieces``, they say in plain Python what has to come of what arrives.
"""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar, Literal

from pieces import Arrivals, Came, Lost, Message, Piece, bare, refuse

from weft import Policy, Runnable, context, current, step
from weft.policy import RetryWith, Value


class Fragile(Piece, frozen=True):
    """A step that may come to nothing: as a dead letter, which is retried or given up, or by policy."""

    is_stateful: ClassVar[bool] = False
    is_kept: bool

    @staticmethod
    def draw(name: str, dice: Random) -> Fragile:
        """Return one."""
        return Fragile(name, dice.random() < 0.5)

    @property
    def repairable(self) -> tuple[str, ...]:
        """Itself, if it is kept when it fails."""
        return ("",) if self.is_kept else ()

    @property
    def losable(self) -> tuple[str, ...]:
        """Itself, if it is not."""
        return () if self.is_kept else ("",)

    def message(self, number: int) -> Message:
        return number % 40

    def amend(self, message: Message) -> Message:
        return message + 100

    def component(self) -> Any:
        return step(lambda x: ("held", x), name=self.name)

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        return Came([[] if ("", address) in lost else [("held", x)] for address, x in arrivals])


# The functions of policies, which a log that has them knows by where they stand.


def own_key(runnable: Runnable) -> str:
    """Return a key that is not the one that Weft would make."""
    return f"own:{runnable.args[0]}"


def spare(runnable: Runnable, error: BaseException) -> Value:
    """Give a value for it."""
    return Value(("spare", runnable.args[0], runnable.own_key, str(error)))


def another(runnable: Runnable, _: BaseException) -> Runnable:
    """Try another function."""
    return runnable.using(told_otherwise)


def worse(runnable: Runnable, _: BaseException) -> Runnable:
    """Try a function that fails too."""
    return runnable.using(told_worse)


def told_worse(x: int) -> Any:
    """Fail."""
    raise LookupError(f"nothing for {x} either")


def told_otherwise(x: int) -> Any:
    """Return what the other function makes, and its key if that is one of its own."""
    key = current().idempotency_key
    return ("other", x, key if key.startswith("own:") else None)


def small(*_: Any) -> RetryWith:
    """Try it in another way."""
    return RetryWith(mode="small")


def helpless(runnable: Runnable, error: BaseException) -> Any:
    """Fail."""
    raise LookupError(f"nothing for {runnable.args[0]}: {error}")


def nonsense(*_: Any) -> int:
    """Give nothing that can be used."""
    return 17


def undo(*_: Any) -> None:
    """Make up for it; who watches knows what was asked."""


FALLBACKS: dict[str, Any] = {
    "value": spare,
    "other": another,
    "worse": worse,
    "context": small,
    "broken": helpless,
    "nonsense": nonsense,
}
UNDOING: dict[str, Any] = {"undone": undo, "undone badly": helpless}
Remedy = Literal["value", "other", "worse", "context", "broken", "nonsense", "undone", "undone badly", "none"]


class Spare(Piece, frozen=True):
    """A step that fails on some numbers, and what its policy does about it; perhaps with its own key."""

    is_stateful: ClassVar[bool] = False
    makes_one: ClassVar[bool] = True
    bad: int
    remedy: Remedy
    has_key: bool
    is_async: bool

    @staticmethod
    def draw(name: str, dice: Random) -> Spare:
        """Return one."""
        remedy: Any = dice.choice(Remedy.__args__)  # type: ignore[attr-defined]
        return Spare(name, dice.choice((2, 2, 3)), remedy, dice.random() < 0.5, dice.random() < 0.2)

    def message(self, number: int) -> Message:
        return number % 30

    @property
    def policies(self) -> dict[str, Policy]:
        policy = Policy(fallback=FALLBACKS.get(self.remedy), idempotency_key=own_key if self.has_key else None)
        if self.remedy in UNDOING:
            policy = policy.merge(Policy(on_failure="compensate", compensation=UNDOING[self.remedy]))
        return {"": policy} if policy.changes() else {}

    def component(self) -> Any:
        bad, has_key = self.bad, self.has_key

        def plain(x: int, mode: str = context("mode", default="large")) -> Any:
            return (mode, x if mode == "small" else refuse(x, bad), current().idempotency_key if has_key else None)

        async def awaited(x: int, mode: str = context("mode", default="large")) -> Any:
            return plain(x, mode)

        return step(bare(awaited if self.is_async else plain), name=self.name)

    def error(self, x: int) -> str:
        """Return what it fails with."""
        return f"{x} can be divided by {self.bad}"

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        came = Came(errors=[])
        assert came.errors is not None
        for _, x in arrivals:
            key = f"own:{x}" if self.has_key else None
            if x % self.bad:
                came.facts.append([("large", x, key)])
                continue
            made: dict[str, Any] = {
                "value": ("spare", x, key, self.error(x)),
                "other": ("other", x, key),
                "context": ("small", x, key),
            }
            came.facts.append([made[self.remedy]] if self.remedy in made else [])
            if self.remedy not in made:
                came.failed.add("")
                said = {
                    "worse": f"nothing for {x} either",
                    "broken": f"nothing for {x}: {self.error(x)}",
                    "nonsense": "the fallback returned 17; it must return Value(...), RetryWith(...) or "
                    "runnable.using(function)",
                }
                came.errors.append(said.get(self.remedy, self.error(x)))
        return came
