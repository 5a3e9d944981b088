"""
Placeholders for functions and values of a stored definition that could not be found again.

The definition is complete and keeps its identity; a missing function raises an error when it is called.
"""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec

from weft.errors import UnresolvedConstant, UnresolvedFunction

NOT_OFFERED = "was not offered by this process"
LOCAL = "is a lambda or local function"
NAMELESS = "has no name that leads to it"
UNWRITABLE = "is not data and was not written"
UNKNOWN = "is of a class that is not known here"

ONLY_HANDED_OVER = frozenset({LOCAL, NAMELESS, UNWRITABLE})
"""The reasons that no import can fix: only the workflow itself has what is missing."""


def refused(component: str, label: str, reason: str, *, run: str = "", given: str = "") -> UnresolvedFunction:
    """
    Return the error that says what is missing, and only what can help.

    Args:
        run: the id of the run that cannot be resumed without it.
        given: what is wrong with the workflow that was handed over, if one was.
    """
    how = (
        f"resume({run!r}, workflow=the_workflow), or register(the_workflow) before resume_all()"
        if run
        else "Workflow.from_dict(data, workflow=the_workflow), or weft.log.decode(data, workflow=the_workflow)"
    )
    if reason in (UNWRITABLE, UNKNOWN):
        mend = "pass it by context(...)" if reason == UNWRITABLE else "register the class"
        advice = "hand over the one that the run is of" if given else f"{mend}, or hand the workflow over: {how}"
        return UnresolvedConstant(component, label, f"{reason}, and {given}" if given else reason, advice)
    if given and (reason in ONLY_HANDED_OVER or reason == NOT_OFFERED):
        return UnresolvedFunction(component, label, f"{reason}, and {given}", "hand over the one that the run is of")
    if reason in ONLY_HANDED_OVER:
        return UnresolvedFunction(component, label, reason, f"hand the workflow over: {how}")
    return UnresolvedFunction(
        component,
        label,
        reason,
        "import the module that makes a component of it, name the module that defines it (Runner(modules=[...]), "
        f"runner.register(module), weft resume --import), or hand the workflow over: {how}",
    )


class Unresolved(msgspec.Struct, frozen=True):
    """Stands for a function that cannot be found; calling it says which, and what to do."""

    component: str
    label: str
    """The name of the function, with its module."""
    code: bytes
    """The fingerprint that it had."""
    reason: str = NOT_OFFERED
    reference: tuple[tuple[str, Any], ...] = ()
    """Its stored form, to be written again."""
    constant: str = ""
    """The class of the bound constant that is missing, if it is not the function itself."""

    @property
    def __name__(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.label.rpartition(".")[2]

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise refused(self.component, self.constant or self.label, self.reason)


class Lost:
    """Stands for a value that could not be stored; a run that needs it gets an error."""

    component = ""
    reason = UNWRITABLE

    @staticmethod
    def of(kind: str, component: str, reason: str = UNWRITABLE) -> Lost:
        """Return the stand-in for a value of the class *kind*; it keeps the name of the class as its identity."""
        held = {"component": component, "reason": reason, "__qualname__": kind}
        named: type[Lost] = type(kind, (Lost,), held)
        return named()

    def __deepcopy__(self, _: object) -> NoReturn:
        raise refused(self.component, type(self).__qualname__, self.reason)
