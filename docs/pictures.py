"""
Draws the pictures of the documentation: ``make pictures``.

Most show a workflow or a run of one: those of the how-to pages are defined here, those of the gallery come from the
code on that page.  ``imports.py`` draws the imports, ``tables.py`` the states, and it writes the pages of tables.  A
test checks that the files are what this program would write.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from weft import (
    Policy,
    Run,
    Workflow,
    accumulator,
    condition,
    each,
    join,
    latest,
    reduce,
    rule,
    state_of,
    step,
)
from weft.core.draw.drawable import Drawable
from weft.testing import VirtualClock

DOCS = Path(__file__).parent
GALLERY = DOCS / "reference" / "gallery.md"
SHOWN = re.compile(r"^```python\n(?P<code>.*?)^```$|\(pictures/(?P<picture>[\w-]+)\.svg\)", re.MULTILINE | re.DOTALL)


def one(name: str) -> Any:
    """A step of one parameter."""
    return step(lambda x: x, name=name)


def two(name: str) -> Any:
    """A step of two parameters."""
    return step(lambda a, b: (a, b), name=name)


def count() -> Workflow:
    """The first workflow of the README."""
    lines = step(lambda text: text.splitlines(), name="lines")
    words = step(lambda line: len(line.split()), name="words")
    total = reduce(lambda acc, n: acc + n, init=0, name="total")
    longest = reduce(max, init=0, name="longest")
    return Workflow("count", lines >> each(words) >> [total, longest])


def shapes() -> Workflow:
    """One of each kind of component."""
    large = condition(lambda x: x > 10, name="is_large")
    spent = accumulator(lambda so_far, x: so_far + x, init=0, name="spent")
    warn = rule(when=large, then=lambda x, total=state_of("spent"): total, name="warn")
    total = reduce(lambda acc, x: acc + x, init=0, name="total")
    return Workflow("shapes", one("read") >> [spent, warn], one("read") >> each(one("price"), name="items") >> total)


def joins() -> Workflow:
    """Several kinds of joins, and a component with two inlets."""
    a, b, c = one("a"), one("b"), one("c")
    return Workflow(
        "joins", [a, b] >> two("both"), join(b, c, wait="any") >> one("first"), a >> one("log"), c >> one("log")
    )


def site() -> Workflow:
    """A nested workflow."""
    crawl = Workflow("crawl", one("fetch") >> [one("title"), one("words")] >> two("report"))
    compare = step(lambda page, before=latest("publish"): page, name="compare")
    return Workflow("site", one("url") >> crawl >> compare >> one("publish"))


def order(tries: int = 1) -> Workflow:
    """An order, priced line by line while its stock is reserved, which succeeds after *tries* attempts."""
    tried: list[None] = []

    def reserve(lines: list[int]) -> list[int]:
        tried.append(None)
        if len(tried) < tries:
            raise ConnectionError("not yet")
        return lines

    @step
    def price(line: int) -> int:
        if line == 0:
            raise ValueError("no price for a line of 0")
        return 100 // line

    total = reduce(lambda acc, x: acc + x, init=0, name="total")
    flow = one("lines") >> [each(price >> one("tax")) >> total >> one("invoice"), step(reserve) >> one("pack")]
    hold = rule(when=lambda lines: not lines, then=lambda lines: "empty", name="hold")
    return Workflow("order", flow, one("lines") >> hold).add_policy("reserve", Policy(max_retries=5))


def timed(run: Run, turns: int = 1_000) -> Run:
    """Drive *run* for up to *turns* steps, and replace all durations by ones that depend on names alone."""
    for _ in range(turns):
        runnables = run.prepare()
        if not runnables:
            break
        run.apply(runnables[0].execute())
    return steady(run)


def steady(run: Run) -> Run:
    """Return *run* with durations that are the same whenever it is drawn."""
    return Run.from_log(
        msgspec.structs.replace(event, duration_ns=len(event.component) * 1_100_000)
        if hasattr(event, "duration_ns")
        else event
        for event in run.log()
    )


def gallery() -> Iterator[tuple[str, str]]:
    """Run the gallery: a picture shows the variable of its name, or else the ``run`` of the code above it."""
    known: dict[str, Any] = {"__name__": "gallery"}
    for found in SHOWN.finditer(GALLERY.read_text(encoding="utf-8")):
        if found["code"]:
            exec(compile(found["code"], GALLERY.name, "exec"), known)  # noqa: S102 - our own page
            continue
        shown = known.get(found["picture"].replace("-", "_"))
        subject = shown if isinstance(shown, Drawable) else known["run"]
        drawn = steady(subject) if isinstance(subject, Run) else subject
        yield f"reference/pictures/{found['picture']}.svg", drawn.to_svg()


def how_to() -> dict[str, str]:
    """The pictures of the page about drawing."""
    return {
        "count.svg": count().to_svg(),
        "count-run.svg": timed(count().plan("to be\nor not to be")).to_svg(),
        "shapes.svg": shapes().to_svg(),
        "joins.svg": joins().to_svg(),
        "site.svg": site().to_svg(),
        "order-run.svg": steady(order(tries=3).run([3, 0, 4, 5], clock=VirtualClock())).to_svg(),
        "order-live.svg": timed(order().plan(list(range(1, 101))), turns=140).to_svg(),
    }


def pictures() -> dict[str, str]:
    """Every picture, by its path in the documentation, as it should be."""
    imports = runpy.run_path(str(DOCS / "imports.py"))["pictures"]()
    states = runpy.run_path(str(DOCS / "tables.py"))["pictures"]()
    shown = {f"how-to/pictures/{name}": text for name, text in how_to().items()}
    return {**shown, **dict(gallery()), **imports, **states}


if __name__ == "__main__":
    for name, text in {**pictures(), **runpy.run_path(str(DOCS / "tables.py"))["pages"]()}.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"drew {name}")
