"""The picture of the imports shows the layers: an arrow that another way implies is left out, a circle is red."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

IMPORTS: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "imports.py"))


def edges(arrows: dict[str, set[str]]) -> list[tuple[str, str, str]]:
    """The edges that are drawn for *arrows*."""
    drawn = IMPORTS["shortened"](arrows, IMPORTS["layered"](arrows))
    return [(edge.source, edge.target, edge.kind) for edge in drawn]


def test_an_arrow_that_a_longer_way_implies_is_left_out() -> None:
    arrows = {"cli": {"runner", "core"}, "runner": {"core"}, "core": set[str]()}

    assert edges(arrows) == [("cli", "runner", "flow"), ("runner", "core", "flow")]


def test_an_import_that_closes_a_circle_is_red() -> None:
    arrows = {"run": {"workflow"}, "workflow": {"draw"}, "draw": {"workflow"}}

    drawn = edges(arrows)

    assert ("run", "workflow", "flow") in drawn
    assert sorted(kind for *ends, kind in drawn if "run" not in ends) == ["error", "flow"]


def test_imports_for_type_checkers_and_inside_functions_are_not_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import asyncio\n"
        "from weft.core.run import Run\n"
        "if TYPE_CHECKING:\n    from weft.runner import Runner\n"
        "def later():\n    from weft.local import react\n",
        encoding="utf-8",
    )

    assert list(IMPORTS["imported"](module)) == [("core", "run", "Run")]


def test_every_package_is_in_the_graph() -> None:
    graph = IMPORTS["graph"](IMPORTS["SOURCE"])

    assert {"core", "runner", "stores", "log"} <= graph.keys()
    assert graph["core"] == set()
