"""
The picture of a run of all benchmarks: steps per second as bars on a logarithmic scale, as SVG.

It has a background of its own and follows the colours of the reader's system, so it can be read on a light and on a
dark page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.durable.line import number
from benchmarks.figures import WEFT, Figure

WIDTH, LEFT, RIGHT = 860, 250, 110
BAR, ROW, HEAD, GAP = 15, 21, 30, 14
TOP, BOTTOM = 66, 34

_STYLE = """
text { font: 13px ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #1f2733 }
.page { fill: #ffffff; stroke: #d5dbe5 } .title { font-size: 16px; font-weight: 600 } .head { font-weight: 600 }
.soft { fill: #5a6578; font-size: 12px } .grid { stroke: #e3e8ef } .weft { fill: #0f766e } .other { fill: #8592a6 }
.quoted { fill: none; stroke: #8592a6; stroke-width: 1.5; stroke-dasharray: 4 3 }
.seen { stroke: #1f2733; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6eaf1 } .page { fill: #161b24; stroke: #333d4d } .soft { fill: #a3aec0 } .grid { stroke: #2a3342 }
.weft { fill: #2dd4bf } .other { fill: #76839a } .quoted { stroke: #93a0b5 } .seen { stroke: #e6eaf1 }
}
"""


_LEGEND = (
    "logarithmic scale; medians, the line is the slowest to the fastest round; dashed: quoted, not measured in this run"
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: *value* steps a second, with the slowest and the fastest round."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    kind: str = "other"
    """``weft``, ``other`` or ``quoted``."""


@dataclass(frozen=True, slots=True)
class Group:
    """Bars that are compared, under a title."""

    title: str
    bars: tuple[Bar, ...]


QUOTED = {
    "a runner in memory": (Bar("Runic", 20_000, kind="quoted"),),
    "on PostgreSQL": (
        Bar("Waymark", 1_350, 1_000, 1_700, kind="quoted"),
        Bar("Absurd", 600, 500, 700, kind="quoted"),
    ),
}
"""From the table of the design; a range is drawn at its middle."""


def groups(found: Sequence[Figure]) -> list[Group]:
    """Return what is drawn: only groups that have a figure of Weft."""
    chain = "chain of 1,000 steps"
    choices = {
        f"in memory, a {chain}": [(figure, figure.library) for figure in found if figure.is_of("core", f"^{chain};")],
        "a runner in memory": _named(found, "throughput", r"; memory, (\w+), every_cycle$"),
        "on SQLite": _named(found, "throughput", r"; (sqlite, \w+, every_cycle, FULL$|SQLite)"),
        "on PostgreSQL": _named(
            found, "postgres_throughput", r" workflows x .*(start, every_cycle$|process|threads, )"
        ),
    }
    made = []
    for title, figures in choices.items():
        bars = tuple(_bar(figure, name) for figure, name in figures)
        if any(bar.kind == "weft" for bar in bars):
            made.append(Group(title, (*bars, *QUOTED.get(title, ()))))
    return made


def draw(found: Sequence[Figure], remark: str = "") -> str:
    """Return the picture; *remark* is why the figures are not those of a quiet machine."""
    drawn = groups(found)
    values = [bar.value for group in drawn for bar in group.bars] or [1.0]
    least = math.floor(math.log10(min(values)) - 0.2)
    most = math.ceil(math.log10(max(values)) + 0.05)
    scale = (WIDTH - LEFT - RIGHT) / max(1, most - least)

    def x(value: float) -> float:
        return LEFT + (math.log10(max(value, 10.0**least)) - least) * scale

    height = TOP + sum(HEAD + ROW * len(group.bars) + GAP for group in drawn) + BOTTOM
    body = [
        f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="20" y="28">Steps per second, more is better{_short(remark)}</text>',
        f'<text class="soft" x="20" y="47">{_LEGEND}</text>',
    ]
    for power in range(least, most + 1):
        at, label = x(10.0**power), f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"
        body.append(f'<line class="grid" x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{height - BOTTOM}"/>')
        body.append(f'<text class="soft" x="{at:.1f}" y="{height - 13}" text-anchor="middle">{label}</text>')
    y = TOP
    for group in drawn:
        body.append(f'<text class="head" x="20" y="{y + 20}">{escape(group.title)}</text>')
        y += HEAD
        for bar in group.bars:
            body += _drawn(bar, x(bar.value), x(bar.low or bar.value), x(bar.high or bar.value), y)
            y += ROW
        y += GAP
    told = ", ".join(f"{group.title}: {_words(group)}" for group in drawn)
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>Steps per second</title><desc>{escape(told)}</desc>",
            f"<style>{_STYLE}</style>",
            *body,
            "</svg>\n",
        ]
    )


def _named(found: Sequence[Figure], subject: str, pattern: str) -> list[tuple[Figure, str]]:
    """Return figures in steps per second, with what tells them apart."""
    chosen = [one for one in found if one.is_of(subject, pattern) and one.unit == "steps/s"]
    return [(one, one.library if one.library != WEFT else f"{WEFT}, {_way(one.how)}") for one in chosen]


def _way(how: str) -> str:
    words = [word for word in how.split(", ") if word in {"inline", "thread", "a worker process"}]
    return ", ".join("threads" if word == "thread" else word for word in words)


def _bar(figure: Figure, name: str) -> Bar:
    """Return *figure* as steps per second."""
    kind = "weft" if figure.library == WEFT else "other"
    if figure.unit == "steps/s":
        return Bar(name, figure.value, figure.low, figure.high, kind)
    low, high = (None if end is None else 1e6 / end for end in (figure.high, figure.low))  # µs per step
    return Bar(name, 1e6 / figure.value, low, high, kind)


def _drawn(bar: Bar, end: float, low: float, high: float, y: float) -> Iterator[str]:
    middle = y + BAR / 2
    yield f'<text x="{LEFT - 10}" y="{y + 12}" text-anchor="end">{escape(bar.name)}</text>'
    yield f'<rect class="{bar.kind}" x="{LEFT}" y="{y}" width="{max(1.0, end - LEFT):.1f}" height="{BAR}" rx="2"/>'
    if high > low:
        yield f'<line class="seen" x1="{low:.1f}" y1="{middle}" x2="{high:.1f}" y2="{middle}"/>'
    yield f'<text class="soft" x="{max(end, high) + 7:.1f}" y="{y + 12}">{number(bar.value)}</text>'


def _short(remark: str) -> str:
    return f" ({escape(remark.split(',', maxsplit=1)[0])})" if remark else ""


def _words(group: Group) -> str:
    return ", ".join(f"{bar.name} {number(bar.value)}" for bar in group.bars)
