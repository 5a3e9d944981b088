"""
Components that wait, for time or for a signal.

Which signal a wait took, and whether it came in time, is read from the log; that this was right is checked by the
simulation itself.
"""

from __future__ import annotations

from random import Random
from typing import Any, ClassVar, Literal

import msgspec
from pieces import Arrivals, Came, Lost, Message, Piece

from weft import sleep, wait_for
from weft.core import events as ev
from weft.testing import Signal
from weft.testing.simulation.simulation import START
from weft.typing import Address

LARGEST = 40
"""One more than the largest message and the largest value of a signal."""


class Pause(Piece, frozen=True):
    """A sleep: for the same time, for one that depends on what arrives, or until a time of day that does."""

    is_stateful: ClassVar[bool] = False
    makes_one: ClassVar[bool] = True
    manner: Literal["for", "for so long", "until"]
    seconds: float

    @staticmethod
    def draw(name: str, dice: Random) -> Pause:
        """Return one."""
        return Pause(name, dice.choice(("for", "for so long", "until")), dice.choice((0.0, 0.4, 3.0, 90.0, 3_600.0)))

    def message(self, number: int) -> Message:
        return number % LARGEST

    def component(self) -> Any:
        seconds = self.seconds
        match self.manner:
            case "for":
                return sleep(seconds, name=self.name)
            case "for so long":
                return sleep(lambda x: seconds * x / LARGEST, name=self.name)
            case "until":
                return sleep(until=lambda x: START + seconds * x / 10, name=self.name)

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        return Came([[x] for _, x in arrivals])


class Wait(Piece, frozen=True):
    """A wait for a signal, perhaps only for those that are odd where what arrived is odd, and perhaps not for ever."""

    is_stateful: ClassVar[bool] = False
    makes_one: ClassVar[bool] = True
    timeout: float | None
    is_picky: bool
    took: dict[Address, int] | None = None
    """By what arrived: the value of the signal that was taken, as the log says."""

    @staticmethod
    def draw(name: str, dice: Random) -> Wait:
        """Return one."""
        return Wait(name, dice.choice((None, None, 0.0, 1.0, 30.0, 4_000.0)), dice.random() < 0.4)

    @property
    def signal(self) -> str:
        """The name of the signal."""
        return f"go_{self.name}"

    def signals(self, dice: Random) -> list[Signal]:
        """Return some signals for it."""
        return [Signal(self.signal, dice.randrange(LARGEST)) for _ in range(dice.choice((0, 1, 2, 4)))]

    @property
    def ending_signals(self) -> tuple[Signal, ...]:
        """Signals of which one is for it, whatever it waits for."""
        return (Signal(self.signal, LARGEST), Signal(self.signal, LARGEST + 1))

    def message(self, number: int) -> Message:
        return number % LARGEST

    def component(self) -> Any:
        match = (lambda value, arrived: value % 2 == arrived % 2) if self.is_picky else None
        return wait_for(self.signal, timeout=self.timeout, match=match, name=self.name)

    def read(self, log: list[Any], name: str) -> Wait:
        taken = [event for event in log if isinstance(event, ev.SignalTaken) and event.component == name]
        return msgspec.structs.replace(self, took={event.inputs[0]: event.value for event in taken})

    def expect(self, arrivals: Arrivals, lost: Lost) -> Came:
        assert self.took is not None
        came = Came([[self.took[address]] if address in self.took else [] for address, _ in arrivals])
        if self.timeout is not None and len(self.took) < len(arrivals):
            came.failed.add("")
        return came
