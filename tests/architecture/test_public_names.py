"""A user can import from ``weft`` what ``__all__`` says, and each name explains itself."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import ModuleType

import msgspec

import weft
from weft.core import events


def is_incidental(value: object) -> bool:
    """Whether *value* is in a namespace because of how Python imports: a submodule, a future statement."""
    is_submodule = isinstance(value, ModuleType) and value.__name__.startswith("weft.")
    return is_submodule or type(value).__module__ == "__future__"


def is_explained(value: object) -> bool:
    """Whether *value* has its own docstring; a generated signature does not count."""
    if not inspect.isclass(value) and not inspect.isroutine(value):
        return True  # a constant or an alias has nowhere to keep one
    text = value.__doc__ or ""
    return bool(text.strip()) and not text.startswith(f"{value.__name__}(")


def test_the_public_names_are_those_in_all() -> None:
    listed = set(weft.__all__)

    inner = ("_", "@")  # pytest adds names with an @ to modules of a package that has a plugin
    importable = {
        name
        for name in dir(weft)
        if name in listed or not (name.startswith(inner) or is_incidental(getattr(weft, name)))
    }

    assert importable == listed
    assert len(listed) == len(weft.__all__)


def test_every_public_name_has_a_docstring() -> None:
    silent = [name for name in weft.__all__ if not is_explained(getattr(weft, name))]

    assert silent == []


def test_every_event_can_be_imported() -> None:
    """Code that reads a log has a public name for what it finds there."""
    kinds = {name for name, kind in vars(events).items() if inspect.isclass(kind) and issubclass(kind, msgspec.Struct)}

    assert {*kinds, "AnyEvent"} == set(weft.events.__all__)


def test_importing_weft_imports_no_network_and_no_parsers() -> None:
    heavy = {"email", "http", "urllib.request", "xml"}
    code = "import sys, weft; print(*sys.modules)"

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert heavy.isdisjoint(shown.split())
