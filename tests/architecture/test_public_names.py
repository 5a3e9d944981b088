"""A user can import from ``weft`` what ``__all__`` says, and each name explains itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

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


LAZY = ("weft", "weft.executors", "weft.fleet", "weft.stores")


def lazy_and_typed(package: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return the names of *package* with their modules: those that it finds, and those that a type checker reads."""
    tree = ast.parse(Path(str(importlib.import_module(package).__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        (str(node.module), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    call = next(node for branch in block.orelse for node in ast.walk(branch) if isinstance(node, ast.Call))
    table = ast.literal_eval(call.args[1])
    lazy = {(module, name) for module, names in table.items() for name in names}
    submodules = [node.value for given in call.keywords for node in ast.walk(given) if isinstance(node, ast.Constant)]
    return lazy | {(package, str(name)) for name in submodules}, typed


@pytest.mark.parametrize("package", LAZY)
def test_a_type_checker_sees_the_names_that_are_imported_when_they_are_used(package: str) -> None:
    lazy, typed = lazy_and_typed(package)
    public = set(importlib.import_module(package).__all__)

    assert typed <= lazy
    assert {(module, name) for module, name in lazy if name in public} == typed
    assert {name for _, name in typed} == public
    assert dir(importlib.import_module(package)) == sorted(public)


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_a_package_does_not_have_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Wrokflow'"):
        getattr(importlib.import_module(package), "Wrokflow")  # noqa: B009


def imported_by(code: str) -> set[str]:
    """Return the modules that *code* imports besides those of a bare interpreter and of ``typing``."""
    script = f"import sys, typing, importlib; bare = set(sys.modules); {code}; print(*set(sys.modules) - bare)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_weft_imports_next_to_nothing() -> None:
    assert imported_by("import weft") == {"weft", "weft.lazy_names"}


def test_defining_a_workflow_imports_neither_a_runner_nor_a_store_nor_an_event_loop() -> None:
    imported = imported_by("from weft import Workflow, step; Workflow('w', step(abs, name='a') >> step(abs, name='b'))")

    assert imported & HEAVY == set()
    assert {name for name in imported if name.startswith(("weft.runner", "weft.stores", "weft.fleet"))} == set()


def test_a_runner_in_memory_imports_no_database() -> None:
    imported = imported_by("from weft import Runner; Runner().close()")

    assert imported & {"sqlite3", "email", "http", "urllib.request", "xml"} == set()
    assert {name for name in imported if name.startswith(("weft.fleet", "weft.stores.postgres"))} == set()


HEAVY = {"asyncio", "concurrent", "email", "http", "logging", "multiprocessing", "pathlib", "socket", "sqlite3", "ssl"}
HEAVY |= {"subprocess", "threading", "urllib", "xml"}
