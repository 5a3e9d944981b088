"""Small workflows and runs that the tests of drawings share, one for each thing that can be drawn."""

from __future__ import annotations

from typing import Any

import msgspec

from weft import INPUT, Run, Workflow, accumulator, condition, each, join, latest, reduce, rule, state_of, step


def one(name: str) -> Any:
    """A step of one parameter."""
    return step(lambda x: x, name=name)


def two(name: str) -> Any:
    """A step of two parameters."""
    return step(lambda a, b: (a, b), name=name)


def crawl() -> Workflow:
    """A fork and a join, nested, with the input as one of the parents of a join."""
    inner = Workflow("crawl", one("fetch") >> [one("title"), one("words")] >> two("report"))
    return Workflow("site", one("url") >> inner >> one("publish"), [INPUT, inner] >> two("archive"))


def rules() -> Workflow:
    """Rules that share conditions, and a condition that something follows."""
    is_int = condition(lambda x: isinstance(x, int), name="is_int")
    is_even = condition(lambda x: x % 2 == 0, name="is_even")
    even = rule(when=is_int & is_even, then=lambda x: x, name="even")
    odd = rule(when=is_int & ~is_even, then=lambda x: x, name="odd")
    return Workflow("rules", one("read") >> [even, odd], condition(lambda x: True, name="big") >> one("alarm"))


def batch() -> Workflow:
    """A map of two steps, and two reduces."""
    total = reduce(lambda acc, x: acc + x, init=0, name="total")
    longest = reduce(max, init=0, name="longest")
    priced = step(lambda x: 12 // x, name="price")
    return Workflow("batch", one("lines") >> each(priced >> one("rounded")) >> [total, longest])


def budget() -> Workflow:
    """A state, what reads it, and what reads against the flow."""
    spent = accumulator(lambda so_far, x: so_far + x, init=0, name="spent")
    over = rule(
        when=lambda x, total=state_of("spent"): total > 5,
        then=lambda x, total=state_of("spent"): total,
        name="over_budget",
    )
    compare = step(lambda x, before=latest("kept"): x, name="compare")
    return Workflow("budget", spent, over, compare >> one("kept"))


def races() -> Workflow:
    """Joins that wait for other things than all, and a component with several ways in."""
    a, b, c = one("a"), one("b"), one("c")
    return Workflow(
        "races",
        join(a, b, wait="any") >> one("first"),
        join(a, b, c, wait=2) >> two("most"),
        join(a, b, wait="all_done") >> two("tidy"),
        a >> one("either"),
        b >> one("either"),
    )


DEFINITIONS = {"crawl": crawl, "rules": rules, "batch": batch, "budget": budget, "races": races}


def timed(run: Run, turns: int = 1_000) -> Run:
    """Drive *run* for some *turns*; everything takes three milliseconds, so that a picture is the same every time."""
    for _ in range(turns):
        runnables = run.prepare()
        if not runnables:
            break
        run.apply(msgspec.structs.replace(runnables[0].execute(), duration_ns=3_000_000))
    return run


def failed_run() -> Run:
    """A run of the batch in which one element fails."""
    return timed(batch().plan([3, 0, 4]))


def live_run() -> Run:
    """A run of the batch that was stopped in the middle."""
    return timed(batch().plan([3, 1, 4, 2]), turns=4)


def spent_run() -> Run:
    """A run with several inputs."""
    run = timed(budget().plan(4))
    return timed(run.plan(3))


RUNS = {"failed": failed_run, "live": live_run, "spent": spent_run}
