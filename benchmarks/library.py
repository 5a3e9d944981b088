"""
The libraries that are compared: Weft first, then the alternatives.

Each is one module whose functions build a piece of work of a given size; what a
module does not define has no natural form in that library.  A library that is
not installed says so in its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType

from benchmarks.harness import Build, Failure, Stock, Work

NOT_INSTALLED = "not installed"


@dataclass(frozen=True, slots=True)
class Library:
    """One column of the table."""

    name: str
    version: str
    module: ModuleType | None
    missing: Failure

    def build(self, work: str, size: int) -> Build | None:
        """Return what builds *work* of this *size*, or None if this library has no such thing."""
        builder: Callable[[int], Work | Stock] | None = getattr(self.module, work, None)
        return partial(builder, size) if builder else None


def load(name: str, package: str, distribution: str, module: str) -> Library:
    """Import *module*, which drives *package*, if that is there."""
    if find_spec(package) is None:
        return Library(name, "", None, Failure(NOT_INSTALLED))
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        version = "(not packaged)"  # a source tree on the path
    try:
        return Library(name, version, import_module(module), Failure(""))
    except ImportError as error:
        return Library(name, version, None, Failure(f"ImportError: {error}"))


def load_all() -> tuple[Library, ...]:
    """Import every library, in the order of the columns."""
    return (
        load("Weft", "weft", "weft", "benchmarks.weft_core"),
        load("Hamilton", "hamilton", "sf-hamilton", "benchmarks.alternatives.hamilton"),
        load("Burr", "burr", "burr", "benchmarks.alternatives.burr"),
        load("LangGraph", "langgraph", "langgraph", "benchmarks.alternatives.langgraph"),
    )
