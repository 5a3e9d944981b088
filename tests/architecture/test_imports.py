"""
The direction of the imports, read from the source.

Core knows nothing; the ports know core; adapters and the runner know the ports; only the edges know
which adapter.  An import that only a type checker sees (under ``if TYPE_CHECKING:``) is an arrow like any other: what
must be known to read a package stands below it.

The same holds between the folders of core and of the runner; there, a Protocol may be imported against the arrow, but
only for a type checker.  Adapters of one port know nothing of each other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import weft

ROOT = Path(weft.__file__).parent

# Layer 1: every package may import these.
VOCABULARY = {"errors", "lazy_names", "typing"}

# package: the others it may import, besides itself and the vocabulary
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "lazy_names": set(),
    "shield": set(),
    "typing": set(),
    "core": set(),
    "events": {"core"},
    "policy": {"core", "ports"},
    "log": {"core", "policy"},
    "ports": {"core"},
    "telemetry": set(),
    "calling": {"core"},
    "local": {"calling", "core", "policy", "ports"},
    "stores": {"core", "log", "ports", "shield"},
    "executors": {"calling", "core", "log", "ports"},
    "schedulers": {"core", "ports"},
    "views": {"core", "log", "ports"},
    "runner": {"calling", "core", "log", "policy", "ports", "shield", "telemetry"},
    "fleet": {"calling", "core", "executors", "log", "policy", "ports", "runner", "shield", "stores", "telemetry"},
}

# These may know everything, and nothing above may know them.
EDGES = {"__init__", "__main__", "cli", "contrib", "testing", "web"}

# `Workflow.run` and its like are thin: core/deferred.py imports the loop, and the codec, when they are called.
# A runner takes the usual adapters where it was given no others (`runner/defaults.py`).
WHEN_CALLED = {
    *(("core", "local"), ("core", "log")),
    *(("runner", "executors"), ("runner", "local"), ("runner", "schedulers"), ("runner", "stores")),
}

# package: its folders, and the modules beside them, from below: each may import what stands in an earlier row
ROWS: dict[str, tuple[set[str], ...]] = {
    "core": (
        {"deferred", "draw", "events"},
        {"failure"},
        {"functions"},
        {"compose"},
        {"components"},
        {"graph"},
        {"plan"},
        {"lineage"},
        {"fold"},
        {"diagrams"},
        {"run"},
        {"context_defaults", "lint", "signature"},
        {"workflow"},
        {"diff", "trace"},
    ),
    "runner": (
        {"checkpoints", "collector", "deadline", "defaults", "notebook", "poll_loop", "slices", "termination"},
        {"option_checks"},
        {"options"},
        {"durability", "portability"},
        {"execution"},
        {"handle"},
        {"waiting"},
        {"usual_options"},
        {"registry"},
        {"runtime"},
        {"delivery", "holding"},
        {"revisions"},
        {"revision_commands", "waiting_queries"},
        {"jobs", "queries", "schedules"},
        {"archives"},
        {"histories"},
        {"completions"},
        {"live"},
        {"runner"},
        {"blocking"},
    ),
    "stores": (
        {"memory_jobs", "memory_schedules", "memory_streams", "whole_log"},
        {"memory", "postgres", "sqlite"},
    ),
    "executors": (
        {"blocking_watch", "outbox", "reports", "transfer"},
        {"child", "pool"},
        {"cluster", "inline", "processes", "tasks", "threads"},
    ),
    "schedulers": ({"chain_batching", "default"},),
}

# file and name that is imported for types: why it may go against the arrow
AGAINST = {
    ("core/run/controls.py", "weft.core.workflow.Workflow"): "`run.workflow` gives a user the whole workflow",
    ("runner/registry/children.py", "weft.runner.runner.AsyncRunner"): "children are started by the runner itself",
    ("runner/runtime.py", "weft.runner.runner.AsyncRunner"): "it makes the child runs, which return its handles",
}

EFFECTS = {
    *("asyncio", "concurrent", "multiprocessing", "queue", "sched", "signal", "subprocess", "threading"),
    *("http", "select", "selectors", "socket", "ssl", "urllib"),
    *("fileinput", "io", "logging", "os", "pathlib", "shutil", "sqlite3", "tempfile"),
    *("random", "secrets", "time"),
}
EFFECTFUL_BUILTINS = {"input", "open", "print"}
# A date or a UUID is a value like any other; where a new one comes from is not.
SOURCES = {
    *(("date", "today"), ("datetime", "now"), ("datetime", "today"), ("datetime", "utcnow")),
    *(("uuid", "uuid1"), ("uuid", "uuid4"), ("uuid", "getnode")),
}


class Import(NamedTuple):
    """One imported name, spelt in full."""

    name: str
    when_called: bool
    for_types: bool
    """Whether only a type checker sees it."""
    member: str = ""
    """The name that is imported from the module *name*; empty if that is imported as a whole."""

    @property
    def package(self) -> str | None:
        """The package of Weft it is in: none for others, the empty one for ``weft`` itself."""
        top, *rest = self.name.split(".")
        if top != "weft":
            return None
        return rest[0] if rest else ""


@cache
def parsed(path: Path) -> ast.Module:
    """The module at *path*; several tests read all of them."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path, root: Path) -> list[Import]:
    """Every import that *path*, a module below *root*, makes."""
    here = ["weft", *path.relative_to(root).parent.parts]

    def visit(node: ast.AST, *, when_called: bool, for_types: bool) -> Iterator[Import]:
        match node:
            case ast.Import(names=names):
                yield from (Import(alias.name, when_called, for_types) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = here[: len(here) - level + 1] if level else []
                source = ".".join([*base, module] if module else base)
                # In `from weft import x`, x may be a package; deeper down the package is known already.
                for alias in names:
                    if source == "weft":
                        yield Import(f"weft.{alias.name}", when_called, for_types)
                    else:
                        yield Import(source, when_called, for_types, alias.name)
            case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body, orelse=orelse):
                for branch in body:
                    yield from visit(branch, when_called=when_called, for_types=True)
                for branch in orelse:
                    yield from visit(branch, when_called=when_called, for_types=for_types)
            case _:
                deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                for child in ast.iter_child_nodes(node):
                    yield from visit(child, when_called=when_called or deferred, for_types=for_types)

    return list(visit(parsed(path), when_called=False, for_types=False))


def imports_at_run_time(path: Path, root: Path) -> Iterator[Import]:
    """Every import of *path* but for those that only a type checker sees."""
    return (found for found in imports(path, root) if not found.for_types)


def modules(root: Path, package: str) -> list[Path]:
    """The files of *package*, which is a folder or a single module."""
    single = root / f"{package}.py"
    return [single] if single.exists() else sorted((root / package).rglob("*.py"))


def wrong_arrows(root: Path) -> list[str]:
    """Every import below *root* that the table does not allow."""
    return [
        f"{path.relative_to(root).as_posix()} imports {found.name}"
        for package, allowed in ALLOWED.items()
        for path in modules(root, package)
        for found in imports(path, root)
        if found.package is not None
        and found.package not in allowed | VOCABULARY | {package}
        and not (found.when_called and (package, found.package) in WHEN_CALLED)
    ]


def wrong_arrows_inside(root: Path) -> Iterator[str]:
    """Every import between folders of one package that its rows do not allow."""
    for package, rows in ROWS.items():
        place = {name: number for number, row in enumerate(rows) for name in row}
        for path in sorted((root / package).glob("*/**/*.py")) + sorted((root / package).glob("*.py")):
            file = path.relative_to(root).as_posix()
            own = path.relative_to(root / package).parts[0].removesuffix(".py")
            for found in imports(path, root) if own != "__init__" else ():
                _, *inside = f"{found.name}.{found.member}".split(".")
                if inside[0] != package or len(inside) < 2 or inside[1] == own:
                    continue
                full = f"{found.name}.{found.member}".rstrip(".")
                allowed = place.get(inside[1], len(rows)) < place.get(own, -1)
                allowed = allowed or (own == "deferred" and found.when_called)  # that is what it is for
                if not (allowed or (found.for_types and ((file, full) in AGAINST or is_protocol(found, root)))):
                    yield f"{file} imports {full}"


def is_protocol(found: Import, root: Path) -> bool:
    """Whether *found* is a class that derives from Protocol."""
    path = root.joinpath(*found.name.split(".")[1:]).with_suffix(".py")
    classes = [node for node in parsed(path).body if isinstance(node, ast.ClassDef)]
    bases = [ast.unparse(base) for kind in classes if kind.name == found.member for base in kind.bases]
    return any(base.partition("[")[0] in ("Protocol", "typing.Protocol") for base in bases)


def effects(path: Path, root: Path) -> Iterator[str]:
    """Return what *path* could use to see or change the world outside."""
    yield from (found.name for found in imports_at_run_time(path, root) if found.name.split(".")[0] in EFFECTS)
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in EFFECTFUL_BUILTINS:
                yield f"{name}()"
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                if (owner, name) in SOURCES:
                    yield f"{owner}.{name}"
            case ast.ImportFrom(module=str(owner), names=names):
                yield from (f"{owner}.{alias.name}" for alias in names if (owner, alias.name) in SOURCES)


def impurities(root: Path) -> list[str]:
    """Every effect within reach of core."""
    return [
        f"{path.relative_to(root).as_posix()} uses {effect}"
        for path in modules(root, "core")
        for effect in effects(path, root)
    ]


def test_arrows_point_inward() -> None:
    assert wrong_arrows(ROOT) == []


def test_arrows_between_folders_point_inward() -> None:
    assert list(wrong_arrows_inside(ROOT)) == []


def test_every_exception_is_needed() -> None:
    known = {
        (path.relative_to(ROOT).as_posix(), f"{found.name}.{found.member}")
        for path in ROOT.rglob("*.py")
        for found in imports(path, ROOT)
    }

    assert AGAINST.keys() - known == set()


def test_core_is_pure() -> None:
    """The core cannot see the clock, the network, the loop, the disk or the log."""
    assert impurities(ROOT) == []


def test_every_package_has_its_place_in_the_table() -> None:
    files = {path.stem for path in ROOT.glob("*.py")}
    folders = {path.name for path in ROOT.iterdir() if any(path.rglob("*.py"))}

    assert (files | folders) - ALLOWED.keys() - EDGES == set()


@pytest.mark.parametrize("package", ROWS)
def test_every_folder_stands_in_a_row(package: str) -> None:
    files = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__"}
    folders = {path.name for path in (ROOT / package).iterdir() if any(path.rglob("*.py"))}
    listed = [name for row in ROWS[package] for name in row]

    assert sorted(listed) == sorted(files | folders)


def test_the_table_has_no_circles() -> None:
    remaining = dict(ALLOWED)
    while free := [package for package, allowed in remaining.items() if not allowed & remaining.keys()]:
        for package in free:
            del remaining[package]

    assert remaining == {}


def tree(root: Path, file: str, source: str) -> Path:
    """A made-up package of one module."""
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("file", "source", "wrong"),
    [
        ("core/run/run.py", "from weft.runner import Runner", "weft.runner"),
        ("core/run/run.py", "import weft.policy.backoff", "weft.policy.backoff"),
        ("core/run/run.py", "from weft import Workflow", "weft.Workflow"),
        ("core/run/run.py", "import weft", "weft"),
        ("core/run/run.py", "from ... import runner", "weft.runner"),
        ("core/components/join.py", "from ...policy import policy", "weft.policy"),
        ("core/run/run.py", "from weft.local import react", "weft.local"),
        ("core/run/run.py", "class Run:\n    from weft.local import react", "weft.local"),
        ("core/run/run.py", "def run():\n    from weft.runner import Runner", "weft.runner"),
        ("core/run/run.py", "if TYPE_CHECKING:\n    from weft.policy import Policy", "weft.policy"),
        ("log/codec.py", "def run():\n    from weft.local import react", "weft.local"),
        ("stores/sqlite/store.py", "try:\n    import weft.executors\nfinally: ...", "weft.executors"),
        ("runner/runner.py", "import json, weft.cli.main", "weft.cli.main"),
        ("errors/__init__.py", "from weft.core import fact", "weft.core"),
    ],
)
def test_an_arrow_that_points_outward_is_found(tmp_path: Path, file: str, source: str, wrong: str) -> None:
    root = tree(tmp_path / "weft", file, source)

    assert wrong_arrows(root) == [f"{file} imports {wrong}"]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "core/run/run.py",
            "import msgspec\nfrom weft.core.lineage.fact import Fact\nfrom weft.errors import WeftError",
        ),
        ("core/run/run.py", "from . import queries\nfrom .queries import Queries\nfrom ...typing import RunId"),
        ("core/run/run.py", "def run():\n    from weft.local import react"),
        ("fleet/client.py", "from weft.stores.postgres import PostgresStore"),
        ("cli/main.py", "import weft\nfrom weft.stores import memory"),
    ],
)
def test_an_arrow_that_points_inward_is_accepted(tmp_path: Path, file: str, source: str) -> None:
    root = tree(tmp_path / "weft", file, source)

    assert wrong_arrows(root) == []


def package_of(root: Path) -> Path:
    """A made-up core with two classes in its plan, of which one is a Protocol."""
    tree(root, "core/plan/node.py", "class Node: ...\nclass Seen(Protocol[T]): ...")
    return root


@pytest.mark.parametrize(
    ("file", "source", "wrong"),
    [
        ("core/graph/wiring.py", "from weft.core.plan.node import Node", "weft.core.plan.node.Node"),
        ("core/graph/wiring.py", "from weft.core.plan.node import Seen", "weft.core.plan.node.Seen"),
        ("core/graph/wiring.py", "import weft.core.plan.node", "weft.core.plan.node"),
        ("core/graph/wiring.py", "from weft.core import plan", "weft.core.plan"),
        ("core/graph/wiring.py", "from .. import plan", "weft.core.plan"),
        ("core/events.py", "from .plan.node import Node", "weft.core.plan.node.Node"),
        ("core/graph/wiring.py", "def f():\n    from weft.core.plan.node import Node", "weft.core.plan.node.Node"),
        (
            "core/graph/wiring.py",
            "if TYPE_CHECKING:\n    from weft.core.plan.node import Node",
            "weft.core.plan.node.Node",
        ),
        ("core/graph/wiring.py", "from weft.core.unheard import of", "weft.core.unheard.of"),
        ("core/unheard.py", "from weft.core.plan.node import Node", "weft.core.plan.node.Node"),
        ("core/draw/dot.py", "from weft.core.events import Event", "weft.core.events.Event"),
        ("core/lint.py", "from weft.core.signature import Signature", "weft.core.signature.Signature"),
        ("core/run/controls.py", "from weft.core.workflow import Workflow", "weft.core.workflow.Workflow"),
        ("runner/handle.py", "from weft.runner.runner import AsyncRunner", "weft.runner.runner.AsyncRunner"),
        ("stores/postgres/rows.py", "from weft.stores.sqlite.rows import row", "weft.stores.sqlite.rows.row"),
        ("stores/memory.py", "from weft.stores import sqlite", "weft.stores.sqlite"),
        ("stores/whole_log.py", "from weft.stores.memory import MemoryStore", "weft.stores.memory.MemoryStore"),
        ("executors/cluster/slots.py", "from ..threads import run", "weft.executors.threads.run"),
        ("schedulers/default.py", "from . import chain_batching", "weft.schedulers.chain_batching"),
    ],
)
def test_an_arrow_between_folders_that_points_outward_is_found(
    tmp_path: Path, file: str, source: str, wrong: str
) -> None:
    root = tree(package_of(tmp_path / "weft"), file, source)

    assert list(wrong_arrows_inside(root)) == [f"{file} imports {wrong}"]


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("core/fold/memory.py", "from weft.core import events as ev\nfrom weft.core.plan.node import Node"),
        ("core/fold/memory.py", "from weft.core.fold import scope\nfrom .scope import Scope\nimport msgspec"),
        ("core/graph/wiring.py", "if TYPE_CHECKING:\n    from weft.core.plan.node import Seen"),
        ("core/graph/wiring.py", "from weft.errors import WeftError\nfrom weft.log import codec"),
        ("core/run/controls.py", "if TYPE_CHECKING:\n    from weft.core.workflow import Workflow"),
        ("core/__init__.py", "from weft.core.trace.trace import workflow"),
        ("stores/sqlite/store.py", "from weft.stores.whole_log import read\nfrom .rows import row"),
        ("executors/threads.py", "from weft.executors.pool import Pool"),
    ],
)
def test_an_arrow_between_folders_that_points_inward_is_accepted(tmp_path: Path, file: str, source: str) -> None:
    root = tree(package_of(tmp_path / "weft"), file, source)

    assert list(wrong_arrows_inside(root)) == []


@pytest.mark.parametrize(
    ("source", "effect"),
    [
        ("import asyncio", "asyncio"),
        ("from os.path import join", "os.path"),
        ("def later():\n    import time", "time"),
        ("from datetime import datetime\nstarted = datetime.now()", "datetime.now"),
        ("import datetime\nclock = datetime.datetime.now", "datetime.now"),
        ("import uuid\nnew = uuid.uuid4()", "uuid.uuid4"),
        ("from uuid import UUID, uuid4", "uuid.uuid4"),
        ("print('here')", "print()"),
    ],
)
def test_an_effect_in_the_core_is_found(tmp_path: Path, source: str, effect: str) -> None:
    root = tree(tmp_path / "weft", "core/draw/dot.py", source)

    assert impurities(root) == [f"core/draw/dot.py uses {effect}"]


@pytest.mark.parametrize(
    "source",
    [
        "from datetime import timedelta\ndef due(clock): return clock.now() + timedelta(1)",
        "import uuid\nfrom uuid import UUID\nSCALARS = (uuid.UUID, UUID)",
    ],
)
def test_a_value_that_is_handed_in_is_not_an_effect(tmp_path: Path, source: str) -> None:
    root = tree(tmp_path / "weft", "core/timer.py", source)

    assert impurities(root) == []
