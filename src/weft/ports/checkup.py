"""The findings of a check of a store, a fleet or an installation."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Certainty: TypeAlias = Literal["certain", "likely"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    where: str
    """The part of the store that it is about."""
    what: str
    next: str
    """The advice: how to fix it, or why nothing has to be done."""
    run: str | None = None
    """The run that it is about, if its id can be read."""
    certainty: Certainty = "certain"
    is_damage: bool = True
    """Whether something is lost or wrong; else it is a remark."""
    repair: str = ""
    """The repair, in words; empty if there is none."""
