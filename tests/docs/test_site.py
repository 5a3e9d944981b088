"""Every link of the documentation leads somewhere, and every page is in the navigation of the site."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "build_site.py"


@pytest.fixture
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_site", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(site: Any, tmp_path: Path) -> Any:
    """The builder on a repository with three pages, all in order."""
    (tmp_path / "docs" / "how-to").mkdir(parents=True)
    (tmp_path / "docs" / "index.md").write_text("# Home\n[draw](how-to/draw.md#in-colour)\n")
    (tmp_path / "docs" / "how-to" / "draw.md").write_text("# Draw\n\n## In *colour*\n[up](../index.md)\n")
    (tmp_path / "README.md").write_text("# Readme\n")
    site.REPOSITORY, site.PROJECT = tmp_path, ()
    assert site.problems() == []
    return site


def test_every_link_leads_somewhere_and_every_page_is_in_the_navigation(site: Any) -> None:
    assert site.problems() == []


def test_a_link_to_a_page_that_is_missing_is_found(small: Any) -> None:
    (small.REPOSITORY / "README.md").write_text("# Readme\n\nSee [this](docs/nowhere.md).\n")

    [problem] = small.problems()

    assert problem.startswith("README.md:3 links to ")
    assert problem.endswith("nowhere.md, which does not exist")


def test_a_link_to_a_heading_that_is_missing_is_found(small: Any) -> None:
    (small.REPOSITORY / "docs" / "index.md").write_text("# Home\n[draw](how-to/draw.md#in-grey)\n")

    assert small.problems() == ["docs/index.md:2 links to #in-grey of draw.md, which has no such heading"]


def test_a_page_in_a_folder_without_a_section_is_found(small: Any) -> None:
    (small.REPOSITORY / "docs" / "attic").mkdir()
    (small.REPOSITORY / "docs" / "attic" / "old.md").write_text("# Old\n")

    assert small.problems() == ["docs/attic/old.md is not in the navigation"]


def test_links_in_code_are_not_links(small: Any) -> None:
    (small.REPOSITORY / "README.md").write_text("# Readme\n```text\n[this](nowhere.md)\n```\n")

    assert small.problems() == []


def test_links_between_pages_follow_them_to_the_site(small: Any) -> None:
    example = small.REPOSITORY / "examples" / "orders"
    example.mkdir(parents=True)
    (example / "README.md").write_text("# Orders\n[draw](../../docs/how-to/draw.md#in-colour), [code](orders.py)\n")
    (example / "orders.py").write_text("print('an order')\n")

    text = small.staged(example / "README.md")

    assert "[draw](../how-to/draw.md#in-colour)" in text
    assert "[code](orders.md)" in text
    assert text.endswith("## orders.py\n\n```python\nprint('an order')\n```\n")


def test_the_configuration_is_toml_with_every_page(site: Any) -> None:
    menu = tomllib.loads(site.configuration())["project"]["nav"]

    listed = [where for entry in menu for value in entry.values() for where in addresses(value)]
    assert sorted(listed) == sorted([*(str(site.address(page)) for page in site.pages()), *site.generated()])


def addresses(value: Any) -> list[str]:
    """Return the pages of an entry of the menu."""
    return [value] if isinstance(value, str) else [where for entry in value for where in entry.values()]


def test_what_a_page_loads_from_elsewhere_is_found(site: Any, tmp_path: Path) -> None:
    site.SITE = tmp_path
    (tmp_path / "fine.html").write_text('<script src="../bundle.js"></script><a href="https://elsewhere.example">')
    (tmp_path / "bad.html").write_text('<link rel="stylesheet" href="https://fonts.example/inter.css">')

    assert site.foreign() == ['bad.html loads <link rel="stylesheet" href="https://']
