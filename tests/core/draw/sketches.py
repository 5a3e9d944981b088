"""Small workflows and runs that the tests of drawings share, one for each thing that can be drawn."""

from __future__ import annotations

from typing import Any

import msgspec

from weft import (
    FSM,
    INPUT,
    Aggregate,
    ProcessManager,
    Run,
    Saga,
    Transition,
    Workflow,
    accumulator,
    condition,
    each,
    fact_count,
    join,
    latest,
    reduce,
    repeat,
    rule,
    state_machine,
    state_of,
    step,
)


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


def price(count: int) -> int:
    """Fail with words that are the same in every version of Python."""
    if count == 0:
        raise ValueError("nothing can be had for nothing")
    return 12 // count


def batch() -> Workflow:
    """A map of two steps, and two reduces."""
    total = reduce(lambda acc, x: acc + x, init=0, name="total")
    longest = reduce(max, init=0, name="longest")
    priced = step(price)
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


def parcel() -> FSM:
    """States with many ways in, all of them named, and several ways back."""
    return FSM(
        "parcel",
        initial="paid",
        states={
            "paid": {"pack": "packed", "refund": "refunded", "cancel": "refunded"},
            "packed": {"ship": "shipped", "unpack": "paid", "lose": "lost"},
            "shipped": {"deliver": "delivered", "return to sender": "returned", "lose": "lost"},
            "delivered": {"return": "returned"},
            "returned": {"refund": "refunded", "resend": "packed", "begin again": "paid"},
            "lost": {"refund": "refunded", "resend": "packed"},
            "refunded": {},
        },
        final=["refunded"],
    )


def reads() -> Workflow:
    """Steps that read the same from several places, and several things each."""
    spent = accumulator(lambda so_far, x: so_far + x, init=0, name="spent")
    late = step(lambda x, a=state_of("spent"), b=latest("early"), c=fact_count("begin"): x, name="late")
    later = step(lambda x, a=state_of("spent"), b=latest("late"), c=latest("early"): x, name="later")
    return Workflow("reads", one("begin") >> [spent, one("early"), late, later])


def mended() -> Workflow:
    """A step with three error routes."""
    risky = one("risky")
    routes = (
        risky.on_error(ValueError, then=one("value")),
        risky.on_error(KeyError, IndexError, then=one("lookup")),
        risky.on_error(then=one("rest")),
    )
    return Workflow("mended", *routes, risky >> one("next"))


def titled() -> Workflow:
    """Nested workflows with names longer than what is in them, one of them with several ways in."""
    long = Workflow("a_workflow_with_a_name_as_long_as_it_gets", one("x") >> one("y"))
    short = Workflow("customer_onboarding", one("p") >> one("q"))
    wide = Workflow("two_ways_into_this_one", one("u") >> one("v"), one("w"))
    return Workflow("titled", one("a") >> long >> short >> one("b"), [one("c"), one("d")] >> two("both") >> wide)


CROWDED = {"parcel": parcel, "reads": reads, "mended": mended, "titled": titled}
"""Where there is much to write beside lines, and little room for it."""


def tank() -> Any:
    """A state machine with a reactor that has a condition, and one that has none."""
    reactors = {"alarm": (lambda level: level > 10, lambda level: level), "display": lambda level: level}
    return state_machine("tank", init=0, reducer=lambda level, change: level + change, reactors=reactors)


def door() -> FSM:
    """Three states, with a guard, an internal transition, a loop, and actions."""
    return FSM(
        "door",
        initial="shut",
        states={
            "shut": {"unlock": Transition("open", when=is_right), "kick": "broken", "push": "shut"},
            "open": {"close": "shut", "knock": Transition(do=lambda: "come in"), "kick": "broken", "axe": "broken"},
            "broken": {},
        },
        on_entry={"open": lambda: "welcome"},
        final=["broken"],
    )


def is_right(event: Any) -> bool:
    """A guard that has a name."""
    return bool(event[1] == 1234)


def account() -> Aggregate:
    """An aggregate of one command."""
    made = Aggregate("account", init=0)
    made.command("add", when=lambda state, command: command[1] > 0)(lambda state, command: ("added", command[1]))
    made.event("added")(lambda state, amount: state + amount)
    return made


def order() -> ProcessManager:
    """A process manager with an end."""
    made = ProcessManager("order", init=0, complete=lambda seen: seen > 1, on_complete=lambda seen: seen)
    made.on("paid")(lambda seen, event: (seen + 1, ["pack"]))
    return made


def trip() -> Saga:
    """Three transactions, of which the last fails if asked to, with what follows."""
    made = Saga("trip", on_complete=lambda: "well", on_abort=lambda: "pity")
    made.transaction(lambda request, results: 1, name="flight", compensate=lambda request, results: -1)
    made.transaction(lambda request, results: 2, name="hotel", compensate=lambda request, results: -2)
    made.transaction(lambda request, results: price(request), name="pay", compensate=None)
    return made


def agent() -> Any:
    """A loop of two steps."""
    think = step(lambda x: x + 1, name="think")
    return repeat(think >> one("act"), until=lambda x: x > 3, at_most=5, name="agent")


def house() -> Workflow:
    """Components that keep a state, one after the other."""
    return Workflow("house", one("event") >> door() >> one("tell"), one("event") >> [tank(), account(), order()])


def travel() -> Workflow:
    """A saga between two steps."""
    return Workflow("travel", one("ask") >> trip() >> one("tell"))


def draft() -> Workflow:
    """A loop between two steps, and one in a map."""
    return Workflow("draft", one("begin") >> agent() >> one("end"), each(agent().named("inner")))


DEFINITIONS = {
    "crawl": crawl,
    "rules": rules,
    "batch": batch,
    "budget": budget,
    "races": races,
    "house": house,
    "travel": travel,
    "draft": draft,
}


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


def aborted_run() -> Run:
    """A saga of which the last transaction failed, and everything was undone."""
    return timed(travel().plan(0))


def looped_run() -> Run:
    """A loop that is done."""
    return timed(Workflow("draft", one("begin") >> agent() >> one("end")).plan(1))


def opened_run() -> Run:
    """A machine that took one event, and ignored another."""
    run = timed(Workflow("house", door() >> one("tell")).plan(("unlock", 1)))
    return timed(run.plan(("unlock", 1234)))


RUNS = {
    "failed": failed_run,
    "live": live_run,
    "spent": spent_run,
    "aborted": aborted_run,
    "looped": looped_run,
    "opened": opened_run,
}
