"""The code of the application: only what was named is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.cli.modules import context, imported
from weft.core.functions.offered import is_offered
from weft.errors import ContextNotFound, ImportFailed


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, which is not where Python looks for modules; what is imported is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0].endswith("_here")]:
        del sys.modules[name]


def test_workflows_at_the_top_of_a_module_are_found(folder: Path) -> None:
    (folder / "found_here.py").write_text(
        "from weft import Workflow, step\n"
        "one, two = Workflow('one', step(abs)), Workflow('two', step(abs))\n"
        "other = 'text'\n",
        encoding="utf-8",
    )

    assert [workflow.name for workflow in imported(["found_here"])] == ["one", "two"]


def test_a_module_is_named_by_its_path_too(folder: Path) -> None:
    (folder / "shop_here" / "orders").mkdir(parents=True)
    for name in ("shop_here/__init__.py", "shop_here/orders/__init__.py"):
        (folder / name).write_text("")
    source = "from weft import Workflow, step\nwf = Workflow(__name__, step(abs))\n"
    for name in ("shop_here/orders/flows.py", "script_here.py"):
        (folder / name).write_text(source)

    found = imported(["shop_here/orders/flows.py", str(folder / "script_here.py"), "shop_here/orders/__init__.py"])

    assert [workflow.name for workflow in found] == ["shop_here.orders.flows", "script_here"]
    assert all(is_offered(sys.modules[name]) for name in ("shop_here.orders.flows", "script_here", "shop_here.orders"))
    assert not is_offered(sys.modules["shop_here"])


def test_a_path_to_a_module_whose_name_is_taken_is_refused(folder: Path) -> None:
    (folder / "json.py").write_text("")

    with pytest.raises(ImportFailed, match=r"'json' is .* here; rename one of them"):
        imported(["json.py"])
    with pytest.raises(ImportFailed, match=r"'nowhere.py': FileNotFoundError: there is no such file"):
        imported(["nowhere.py"])


@pytest.mark.parametrize("source", ["import nowhere_at_all", "raise RuntimeError('not today')"])
def test_a_module_that_is_found_and_raises_is_not_said_to_be_misnamed(folder: Path, source: str) -> None:
    (folder / "broken_here.py").write_text(source)

    for name in ("broken_here", "broken_here.py"):
        with pytest.raises(ImportFailed) as failed:
            imported([name])
        assert "name a module" not in str(failed.value)


@pytest.mark.parametrize("source", ["raise RuntimeError('at import')", "def broken(:"])
def test_a_module_that_fails_is_named_with_its_reason(folder: Path, source: str) -> None:
    (folder / "fails_here.py").write_text(source, encoding="utf-8")

    with pytest.raises(ImportFailed, match=r"'fails_here': (RuntimeError: at import|SyntaxError)"):
        imported(["fails_here"])


def test_a_context_is_a_mapping_or_what_a_function_returns(folder: Path) -> None:
    (folder / "context_here.py").write_text("held = {'a': 1}\ndef made(): return {'b': 2}\n", encoding="utf-8")

    assert context("context_here:held") == {"a": 1}
    assert context("context_here:made") == {"b": 2}


@pytest.mark.parametrize("where", ["", "json", ":x", "json:", "json:nothing", "json:decoder"])
def test_anything_else_is_not_a_context(where: str) -> None:
    with pytest.raises(ContextNotFound, match="MODULE:NAME"):
        context(where)
