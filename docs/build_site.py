"""
Builds the documentation as a site: ``make docs``.

The pages of the repository, which link to each other as files, are copied to ``build/pages`` under the addresses that
they have on the site, and their links with them.  ``docs/api.py`` adds the pages of the API, from the docstrings.
Then zensical makes HTML of all of them.  The build fails if a link is broken or if a page loads anything from another
server.  The site can be opened from the disk, with its search.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = REPOSITORY / "build" / "pages"
SITE = REPOSITORY / "build" / "site"

# The sections of the navigation: their title, their folder, and its pages in the order of reading.  Pages that are
# not named here follow in the order of their files, so that every page is in the navigation.
SECTIONS = {
    "Tutorial": ("docs/tutorial", ()),
    "How-to": (
        "docs/how-to",
        (
            "retry-and-limit",
            "transactional-steps",
            "wait-for-the-outside",
            "cancel-a-run",
            "serve-from-fastapi",
            "agent-loop",
            "etl-over-files",
            "stream-from-a-step",
            "trace",
            "test-a-workflow",
            "change-a-running-workflow",
            "draw",
            "dashboard",
            "monitor",
            "fleet",
            "schedules",
            "deploy",
            "long-histories",
            "keep-histories-short",
            "back-up",
            "write-a-store",
        ),
    ),
    "Reference": (
        "docs/reference",
        ("gallery", "components", "policies", "runner", "options", "states", "errors", "stores", "cli"),
    ),
    "Explanation": (
        "docs/explanation",
        ("the-model", "how-a-run-works", "guarantees", "architecture", "how-fast", "scale", "compared", "coming-from"),
    ),
    "Examples": ("examples", ()),
    "Decisions": ("docs/adr", ("README",)),
}
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")

FENCE = re.compile(r"^(?P<indent> *)```.*?^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)
OPTIONS = re.compile(r"\A( *```\w+)(?: (title=\"[^\"]*\"))?[^\n]*")  # ```python title="a.py" no-run
LINK = re.compile(r"(?P<before>!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(|\bsrc=\")(?P<target>[^)\"\s]+)")
HEADING = re.compile(r"^#{1,6} (?P<text>.+?)\s*$", re.MULTILINE)
LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//|<link\b[^>]*\bhref="(?:https?:)?//""")


class Link(NamedTuple):
    """A link of a page to another file: the file, the heading in it, and the line it is on."""

    path: Path
    anchor: str
    line: int


def pages() -> list[Path]:
    """Return every page of the documentation."""
    found = [*(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "examples").glob("*/README.md")]
    return sorted([*found, *(REPOSITORY / name for name in PROJECT)])


def title(page: Path) -> str:
    """Return the first heading of *page*."""
    found = HEADING.search(FENCE.sub("", page.read_text(encoding="utf-8")))
    return found["text"].replace("`", "") if found else page.stem


def navigation() -> dict[str, list[Path]]:
    """Return the sections of the site, each with its pages in the order of reading."""
    sections = {"Weft": [REPOSITORY / "docs" / "index.md"]}
    for name, (folder, first) in SECTIONS.items():
        found = {
            page.parent.name if folder == "examples" else page.stem: page
            for page in sorted((REPOSITORY / folder).glob("*/README.md" if folder == "examples" else "*.md"))
        }
        sections[name] = [*(found.pop(each) for each in first if each in found), *found.values()]
    sections["Project"] = [REPOSITORY / name for name in PROJECT]
    return sections


def generated() -> dict[str, tuple[str, str]]:
    """Return the title and the text of every page that is not in the repository, by its address on the site."""
    written: dict[str, tuple[str, str]] = runpy.run_path(str(REPOSITORY / "docs" / "api.py"))["pages"]()
    return written


def address(path: Path) -> PurePosixPath | None:
    """Return where the file at *path* is on the site; None if it is not a part of it."""
    parts = path.relative_to(REPOSITORY).parts
    match parts:
        case ("README.md",):
            return PurePosixPath("index.md")
        case ("docs", "adr", "README.md"):
            return PurePosixPath("adr", "index.md")
        case ("docs", *rest) if path.suffix != ".py":
            return PurePosixPath(*rest)
        case ("examples", name, "README.md"):
            return PurePosixPath("examples", f"{name}.md")
        case ("examples", *rest) if path.suffix in {".png", ".svg"}:
            return PurePosixPath("examples", *rest)
        case (name,) if name in PROJECT:
            return PurePosixPath("project", f"{path.stem.lower()}.md")
        case _:
            return None


def slug(heading: str) -> str:
    """
    Return the anchor of a heading.

    >>> slug("`weft run MODULE:WORKFLOW`")
    'weft-run-moduleworkflow'
    """
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of *page*."""
    return {slug(found["text"]) for found in HEADING.finditer(FENCE.sub("", page.read_text(encoding="utf-8")))}


def links(page: Path) -> Iterator[Link]:
    """Return the links of *page* to files of the repository."""
    text = FENCE.sub(lambda match: "\n" * match[0].count("\n"), page.read_text(encoding="utf-8"))
    for found in LINK.finditer(text):
        if not re.match(r"[a-z]+:", found["target"]):
            path, _, anchor = found["target"].partition("#")
            line = text.count("\n", 0, found.start()) + 1
            yield Link((page.parent / path).resolve() if path else page, anchor, line)


def problems() -> list[str]:
    """Return the links that lead nowhere, and the pages that the navigation leaves out or has twice."""
    found: list[str] = []
    listed = [page for section in navigation().values() for page in section]
    found += [f"{page.relative_to(REPOSITORY)} is in the navigation twice" for page in listed if listed.count(page) > 1]
    found += [f"{page.relative_to(REPOSITORY)} is not in the navigation" for page in pages() if page not in listed]
    for page in [REPOSITORY / "README.md", *pages()]:
        for link in links(page):
            where = f"{page.relative_to(REPOSITORY)}:{link.line}"
            if not link.path.is_relative_to(REPOSITORY) or not link.path.exists():
                found.append(f"{where} links to {link.path}, which does not exist")
            elif link.anchor and link.path.suffix == ".md" and link.anchor not in anchors(link.path):
                found.append(f"{where} links to #{link.anchor} of {link.path.name}, which has no such heading")
    return found


def staged(page: Path) -> str:
    """Return the text of *page* with its links as they are on the site, and for an example also its code."""
    here = PurePosixPath(str(address(page)))
    known = {link.path: address(link.path) for link in links(page)}

    def moved(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:|#", match["target"]):
            return match[0]
        path, hash_, anchor = match["target"].partition("#")
        there = known[(page.parent / path).resolve()]
        if there is None:  # source code: named, and not linked
            return f"{match['before']}{here.name}"
        return match["before"] + PurePosixPath(os.path.relpath(there, here.parent)).as_posix() + hash_ + anchor

    text = page.read_text(encoding="utf-8")
    parts = re.split(r"(^ *```.*?^ *```[ ]*$)", text, flags=re.MULTILINE | re.DOTALL)
    text = "".join(
        OPTIONS.sub(lambda found: " ".join(filter(None, found.groups())), part)
        if part.lstrip().startswith("```")
        else LINK.sub(moved, part)
        for part in parts
    )
    if page.parent.parent.name == "examples":
        for source in sorted(page.parent.glob("*.py")):
            text += f"\n## {source.name}\n\n```python\n{source.read_text(encoding='utf-8').rstrip()}\n```\n"
    return text


def configuration() -> str:
    """Return the configuration of the site generator."""
    menu: list[object] = []
    for name, section in navigation().items():
        entries = [{title(page): str(address(page))} for page in section]
        menu.append({"Weft": "index.md"} if name == "Weft" else {name: entries})
        if name == "Reference":
            menu.append({"API": [{title: where} for where, (title, _) in generated().items()]})
    return (REPOSITORY / "docs" / "site.toml").read_text(encoding="utf-8").replace('"NAVIGATION"', _toml(menu))


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def stage() -> None:
    """Copy the pages and pictures to where they are on the site."""
    shutil.rmtree(PAGES.parent / "pages", ignore_errors=True)
    pictures = [path for path in (REPOSITORY / "docs").rglob("*") if path.suffix in {".svg", ".png", ".css", ".js"}]
    pictures += [path for path in (REPOSITORY / "examples").rglob("*") if path.suffix in {".svg", ".png"}]
    for path in [*pages(), *pictures]:
        target = PAGES / str(address(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(staged(path), encoding="utf-8")
        else:
            shutil.copyfile(path, target)
    for where, (_, text) in generated().items():
        target = PAGES / where
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    (PAGES.parent / "zensical.toml").write_text(configuration(), encoding="utf-8")


def foreign() -> list[str]:
    """Return what the pages of the site load from another server."""
    return [
        f"{page.relative_to(SITE)} loads {match[0]}"
        for page in sorted(SITE.rglob("*.html"))
        for match in LOADED.finditer(page.read_text(encoding="utf-8"))
    ]


def main() -> int:
    """Build the site; return how it ended, as an exit status."""
    found = problems()
    if not found:
        stage()
        shutil.rmtree(SITE, ignore_errors=True)
        command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", "zensical.toml"]
        done = subprocess.run(command, cwd=PAGES.parent, check=False)  # noqa: S603 - the generator
        if done.returncode:
            return done.returncode
        found = foreign()
    for problem in found:
        print(problem)
    if not found:
        print(f"the site is in {SITE}: open {SITE.relative_to(REPOSITORY)}/index.html")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
