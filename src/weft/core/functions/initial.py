"""
The initial state of a component that keeps one.

    >>> Initial(list).make(), Initial({"a": []}).make()
    ([], {'a': []})
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

from weft.core.functions.code_identity import fingerprint
from weft.core.functions.identity import canonical
from weft.core.functions.offered import offer
from weft.errors import UnidentifiableValue


@dataclass(frozen=True, eq=False)
class Initial:
    """A state to begin with: a value, or a function that makes a fresh one."""

    init: Any

    def __post_init__(self) -> None:
        offer(self.init)

    def make(self) -> Any:
        """Return the initial state; a callable *init* is called each time, a value is copied, so no runs share it."""
        return cast("Callable[[], Any]", self.init)() if callable(self.init) else deepcopy(self.init)

    @property
    def identity(self) -> bytes:
        """The hash of the value, or of the function."""
        if callable(self.init):
            return fingerprint(self.init)
        try:
            return canonical(self.init, "init")
        except UnidentifiableValue:
            return type(self.init).__qualname__.encode()
