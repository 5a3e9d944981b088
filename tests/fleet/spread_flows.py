"""Workflows whose steps any worker may run; workers import this file."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from weft import Policy, Workflow, condition, context, current, each, reduce, registry, step
from weft.policy import ConcurrencyLimit, RateLimit
from weft.testing.contracts import gate, steps

QUEUE = "wide"
LIMIT, RATE = 3, 12


class Declined(Exception):
    """An exception of the application."""


@dataclass
class Priced:
    """A value of a class of the application."""

    number: int
    price: float


def note(word: str) -> None:
    """Write that a step begins, with its process, to a file for the test."""
    with Path(os.environ["FLEET_NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {current().run_id} {word}\n")


@step
def numbers(n: int) -> list[int]:
    return list(range(n))


@step
def square(x: int) -> int:
    note(f"square-{x}")
    time.sleep(float(os.environ.get("FLEET_PAUSE", "0")))
    return x * x


@step
def narrow(x: int) -> int:
    note("enter")
    time.sleep(float(os.environ.get("FLEET_PAUSE", "0.02")))
    note("leave")
    return x


@step
def add(total: int, x: int) -> int:
    return total + x


@step
def price(x: int, rate: float = context("rate", default=0.5)) -> Priced:
    return Priced(x, x * rate)


@step
async def aprice(x: int, secret: str = context("secret")) -> str:
    await asyncio.sleep(0)
    return f"{x}{len(secret)}"


@step
def decline_at_first(x: int) -> int:
    note(f"attempt-{current().attempt}")
    if current().attempt < 3:
        raise Declined("not yet", x)
    return x + current().attempt


@step
def die(x: int) -> int:
    note(f"die-{x}")
    os.kill(os.getpid(), 9)
    return x


@step
async def wait_at_gate(address: tuple[str, int]) -> str:
    note("waits")
    return await gate.aknock(tuple(address))


@step
def count_gates(addresses: list[tuple[str, int]]) -> int:
    return len(addresses)


@step
def second(x: int) -> int:
    return x


@step
def third(x: int) -> int:
    note("third")
    return x


@step
def write_stream(x: int) -> int:
    current().stream("numbers").write(x)
    return x


@step
def size(value: list[str], x: int) -> int:
    return len(value) + x


@step
def blob(n: int) -> list[str]:
    return ["x" * 1000 for _ in range(n)]


def append(words: list[str], word: str) -> list[str]:
    """Return the list with one more."""
    return [*words, word]


@step
def named(x: int) -> str:
    return f"n{x}"


SPREAD = Policy(queue=QUEUE)

squares = Workflow(
    "squares", numbers >> each(square) >> reduce(add, init=0, name="total"), policies=[("square", SPREAD)]
)
prices = Workflow("prices", price, policies=[("price", SPREAD)])
secrets = Workflow("secrets", aprice, policies=[("aprice", SPREAD)])
declining = Workflow(
    "declining",
    decline_at_first,
    policies=[("decline_at_first", Policy(queue=QUEUE, max_retries=3, retryable=(Declined,)))],
)
deadly = Workflow("deadly", die, policies=[("die", SPREAD)])
gated = Workflow("spread-gated", wait_at_gate, policies=[("wait_at_gate", SPREAD)])
gates = Workflow(
    "spread-gates",
    each(wait_at_gate) >> reduce(append, init=list, name="all"),
    policies=[("wait_at_gate", SPREAD)],
)
beside = Workflow(
    "spread-beside",
    each(wait_at_gate) >> reduce(append, init=list, name="all"),
    count_gates >> second >> third,
    policies=[("wait_at_gate", SPREAD)],
)
"""A wide map, and steps of the run itself beside it."""
names = Workflow(
    "names",
    numbers.named("many") >> each(named) >> reduce(append, init=list, name="listed"),
    policies=[("named", SPREAD)],
)
impatient = Workflow("impatient", wait_at_gate, policies=[("wait_at_gate", Policy(queue=QUEUE, timeout=0.5))])
narrowed = Workflow(
    "narrowed",
    numbers >> each(narrow) >> reduce(add, init=0, name="total"),
    policies=[("narrow", Policy(queue=QUEUE, concurrency_limit=ConcurrencyLimit("door", LIMIT)))],
)
paced = Workflow(
    "paced",
    numbers >> each(named) >> reduce(append, init=list, name="listed"),
    policies=[("named", Policy(queue=QUEUE, rate_limit=RateLimit("pace", RATE, per=1.0, burst=2)))],
)
unserved = Workflow(
    "unserved", price.named("unpriced"), policies=[("unpriced", Policy(queue="nobody", queue_timeout=0.3))]
)


@step
async def report_and_wait(address: tuple[str, int]) -> str:
    current().progress(1, 4, "begun")
    current().progress(2, 4, "half")
    note("waits")
    return await gate.aknock(tuple(address))


def stand_at(address: tuple[str, int]) -> str:
    """Report, wait at the gate, and report again before the end."""
    current().progress(3, note="x" * 5_000)
    found = gate.knock(tuple(address))
    current().progress(4)
    return found


progressing = Workflow("progressing", report_and_wait, policies=[("report_and_wait", SPREAD)])
isolated = Workflow(
    "isolated",
    step(stand_at).named("isolated"),
    policies=[("isolated", Policy(queue=QUEUE, executor="process"))],
)
streaming = Workflow("streaming", write_stream, policies=[("write_stream", SPREAD)])
streaming_apart = Workflow(
    "streaming-apart",
    write_stream.named("apart"),
    policies=[("apart", Policy(queue=QUEUE, executor="process"))],
)
registry.add(
    *(
        squares,
        prices,
        secrets,
        declining,
        deadly,
        gated,
        gates,
        beside,
        names,
        impatient,
        unserved,
        streaming,
        streaming_apart,
        progressing,
        isolated,
    ),
    *(narrowed, paced),
)

contract = Workflow(
    "spread-contract",
    *(
        step(function).named(function.__name__)
        for function in (
            *(steps.double, steps.refuse, steps.leave, steps.count_down, steps.whoami, steps.mark),
            gate.aknock,
        )
    ),
    condition(steps.has_elements) >> step(steps.double).named("after"),
)
"""The steps of the contract of executors."""
registry.add(contract)

OWNER = {"rate": 0.1, "secret": "of the owner"}
SERVER = {"rate": 2.0, "secret": "secret"}
"""The context of a worker that drives runs, and of one that runs steps for others."""
