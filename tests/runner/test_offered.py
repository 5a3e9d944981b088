"""Write access to a store is not code execution: a run goes on with what its process has offered, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from weft import AsyncRunner, Runner, Workflow, step
from weft.core.functions.offered import is_offered
from weft.errors import InvalidComponent, InvalidOption
from weft.log import class_registry
from weft.ports.store import RunRecord
from weft.runner.waiting.on_complete import find

LIBRARY = """
import os
from pathlib import Path

def mark(*args, **kwargs):
    if "PLANTING" in os.environ:
        os._exit(0)
    Path("marked").touch()
    return 0

class Tool:
    def __init__(self, *args): mark()
    def run(self, *args): mark()

tool = object.__new__(Tool)
"""
"""Imported by both processes: a run that calls it dies with the first process, and leaves a mark in the second."""

APP = """
from library import mark
from weft import step

@step
def price(order):
    raise ValueError(order)
"""

PLANT = """
import functools, sys
import app, library
from weft import Runner, Workflow, condition, step
from weft.policy import DEFAULT, Policy
from weft.stores import SQLiteStore

failing = Workflow("orders", app.price)
planted = {
    "a step": Workflow("orders", step(library.mark, name="price")),
    "a class": Workflow("orders", step(library.Tool, name="price")),
    "a method": Workflow("orders", step(library.tool.run, name="price")),
    "a partial": Workflow("orders", step(functools.partial(library.mark, 1), name="price")),
    "a condition": Workflow("orders", condition(library.mark, name="is_dear") >> app.price),
    "a fallback": failing.with_policies([(DEFAULT, Policy(fallback=library.mark))]),
    "a policy that was set": failing,
}
with Runner(SQLiteStore("runs.db")) as runner:
    workflow = planted[sys.argv[1]]
    runner.start(workflow, id="order-1")
    if workflow is failing:
        runner.set_policies("order-1", [(DEFAULT, Policy(fallback=library.mark))])
    runner.send("order-1", 1)
    runner.wait("order-1", timeout=20)
raise SystemExit("the process should have died in the planted function")
"""

RESUME = """
import app, library
from weft import Runner, Workflow
from weft.stores import SQLiteStore

with Runner(SQLiteStore("runs.db")) as runner:
    runner.register(Workflow("own", app.price))
    for handle in runner.resume_all():
        handle.wait(timeout=20)
"""

PLANTED = ["a step", "a class", "a method", "a partial", "a condition", "a fallback", "a policy that was set"]


def python(folder: Path, *arguments: str, status: int = 0, **environment: str) -> str:
    """Return what a Python process in *folder* says."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    return said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the application stands, with a library."""
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_run_calls_nothing_that_was_not_offered(folder: Path, what: str) -> None:
    python(folder, "-c", PLANT, what, PLANTING="1")

    said = python(folder, "-c", RESUME)

    assert not (folder / "marked").exists(), "a function of the library was called"
    assert "UnresolvedFunction" in said
    assert "library." in said
    assert "register(module)" in said


def test_the_command_calls_nothing_that_was_not_offered(folder: Path) -> None:
    python(folder, "-c", PLANT, "a step", PLANTING="1")

    for more in ([], ["--import", "app"], ["--import", "app.py"]):
        said = python(folder, "-m", "weft", "resume", "--store", "runs.db", "--all", *more, status=1)
        assert "library.mark" in said
        assert "--import" in said
    assert not (folder / "marked").exists()

    python(folder, "-m", "weft", "resume", "--store", "runs.db", "--all", "--import", "library.py")
    assert (folder / "marked").exists(), "a module that is named offers its functions"


# -- what goes on without a word -----------------------------------------------------------------

SCRIPT = """
import os, sys
from weft import Runner, Workflow, step
from weft.policy import Policy
from weft.stores import SQLiteStore

@step
def first(x): return x + 1

second = step(lambda x: os._exit(0) if "DYING" in os.environ else 1 / (x - 2), name="second")

def is_zero(error): return isinstance(error, ZeroDivisionError)
def instead(runnable, error):
    from weft.policy import Value
    return Value(42)

wf = Workflow("shop", first >> second).with_policies([("second", Policy(retryable=is_zero, fallback=instead))])

def main(what):
    with Runner(SQLiteStore("runs.db")) as runner:
        if what == "start":
            runner.start(wf, 1, id="a").wait(timeout=20)
        else:
            for handle in runner.resume_all():
                print("resulted in", handle.result(timeout=20))

if __name__ == "__main__":
    main(sys.argv[1])
"""

WAYS = {
    "as a script": ["shop.py"],
    "as a module": ["-m", "shop"],
    "imported": ["-c", "import sys, shop; shop.main(sys.argv[1])"],
}


@pytest.mark.parametrize("then", WAYS)
@pytest.mark.parametrize("first", WAYS)
def test_a_script_that_crashed_goes_on_without_registering_anything(tmp_path: Path, first: str, then: str) -> None:
    (tmp_path / "shop.py").write_text(SCRIPT)
    python(tmp_path, *WAYS[first], "start", DYING="1")

    assert "resulted in 42" in python(tmp_path, *WAYS[then], "resume")


PLAIN = """
import os
from weft import Runner, Workflow, step
from weft.stores import SQLiteStore

def double(x):
    return os._exit(0) if "DYING" in os.environ else 2 * x

def start():
    with Runner(SQLiteStore("runs.db")) as runner:
        runner.start(Workflow("doubling", step(double)), 4, id="a").wait(timeout=20)

def resume(*, modules=(), register=(), **given):
    with Runner(SQLiteStore("runs.db"), modules=modules) as runner:
        runner.register(*register)
        print("resulted in", runner.resume("a", **given).result(timeout=20))
"""


@pytest.mark.parametrize(
    "given",
    [
        "modules=[plain]",
        "register=[plain]",
        "register=[Workflow('doubling', step(plain.double))]",
        "workflow=Workflow('doubling', step(plain.double))",
    ],
)
def test_functions_that_nothing_is_made_of_are_offered_with_one_word(tmp_path: Path, given: str) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    python(tmp_path, "-c", "import plain; plain.start()", DYING="1")
    refused = python(tmp_path, "-c", "import plain; plain.resume()", status=1)
    assert "the function plain.double of 'double' was not offered by this process; import the module" in refused

    said = python(tmp_path, "-c", f"import plain; from weft import Workflow, step; plain.resume({given})")

    assert "resulted in 8" in said


def test_a_step_made_of_it_offers_it_too(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    python(tmp_path, "-c", "import plain; plain.start()", DYING="1")

    said = python(tmp_path, "-c", "import plain, weft; made = weft.step(plain.double); plain.resume()")

    assert "resulted in 8" in said


# -- register and callbacks ----------------------------------------------------------------------


NOTES = """
told = []

def note(*args):
    told.append(args)

class Box:
    def put(self, *args): pass

box = Box()
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the application that is imported, and not named."""
    made = ModuleType("notes")
    monkeypatch.setitem(sys.modules, "notes", made)
    exec(NOTES, vars(made))  # noqa: S102
    return made


@pytest.mark.parametrize("thing", ["notes", 5, None, lambda x: x])
def test_what_cannot_be_offered_is_refused(thing: Any) -> None:
    runner = Runner()

    with pytest.raises(InvalidOption, match="use a workflow, a module or a class"):
        runner.register(thing)


def test_a_class_that_is_registered_comes_back_from_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Parcel:
        weight: int

    monkeypatch.setattr(class_registry, "_registered", dict(class_registry._registered))
    runner = AsyncRunner()

    runner.register(Parcel)

    assert Parcel in class_registry.registered().values()
    with pytest.raises(InvalidComponent, match="cannot register"):
        runner.register(Runner)


def test_a_module_that_is_named_brings_the_workflows_at_its_top(module: ModuleType) -> None:
    module.__dict__["wf"] = workflow = Workflow("noted", step(lambda x: x, name="local"))
    runner = AsyncRunner(modules=[module])

    assert is_offered(module)
    assert runner._runtime.definitions.finder(None)(_record(workflow)) is workflow


def _record(workflow: Workflow) -> Any:
    return RunRecord(id="r", workflow=workflow.name, version=workflow.version, created_at=0.0, updated_at=0.0)


def test_a_callback_by_name_is_offered_by_being_given(module: ModuleType) -> None:
    with pytest.raises(InvalidOption, match="give on_complete= again"):
        find("notes:note")

    with Runner() as runner:
        runner.start(Workflow("w", step(abs)), -1, id="a", on_complete="notes:note").wait(timeout=20)

    assert find("notes:note") is module.note
    assert [args[0] for args in module.told] == ["a"]


def test_a_callback_by_name_that_is_defined_again_after_it_was_given_is_called(module: ModuleType) -> None:
    seen: list[str] = []

    def note(run_id: str, _: object) -> None:
        seen.append(run_id)

    with Runner() as runner:
        runner.start(Workflow("w", step(abs)), id="a", on_complete="notes:note")
        module.__dict__["note"] = note  # as a reload does
        runner.send("a", -1)
        runner.wait("a", timeout=20)

    assert seen == ["a"]
    with pytest.raises(InvalidOption, match="has offered no such function"):
        find("notes:box.put")


@pytest.mark.parametrize(
    "name", ["posix:system", "os:system", "builtins:eval", "subprocess:run", "notes:box.put", "notes:Box"]
)
@pytest.mark.usefixtures("module")
def test_a_callback_that_was_only_stored_is_not_found(name: str) -> None:
    with pytest.raises(InvalidOption, match="has offered no such function"):
        find(name)


def test_a_callback_that_is_not_there_is_refused_when_it_is_given(module: ModuleType) -> None:
    with Runner() as runner:
        for name in ("notes:nothing", "never.imported:f", "notes:told"):
            with pytest.raises(InvalidOption, match="import its module first"):
                runner.start(Workflow("w", step(abs)), 1, on_complete=name)
        runner.start(Workflow("w", step(abs)), -1, on_complete="notes:box.put").wait(timeout=20)

    assert find("notes:box.put") == module.box.put
