"""Workflows whose steps start children, for fleets on several databases."""

from __future__ import annotations

import asyncio
from typing import Any

from weft import Saga, Workflow, current, step, wait_for


@step
def increase(x: int) -> int:
    return x + 1


@step
def forward(x: object) -> object:
    return x


one_more = Workflow("one more", increase)
patient = Workflow("patient", increase >> wait_for("go") >> forward)


@step
async def ask_children(x: int) -> list[int]:
    """Start a child that is named, and one that is not."""
    named = await current().astart_child(one_more, x, id=f"child-{x}")
    other = await current().astart_child(one_more, x * 10)
    return [await named.result(), await other.result()]


@step
def ask_from_a_thread(x: int) -> int:
    return current().start_child(one_more, x, id=f"thread-{x}").result()


@step
async def start_patient(x: str) -> str:
    child = await current().astart_child(patient, 1, id=f"patient of {x}")
    await asyncio.sleep(600)
    return child.id


family = Workflow("family", ask_children)
threaded = Workflow("threaded", ask_from_a_thread)
left = Workflow("left", start_patient)

undoing: list[str] = []
"""The requests whose booking is being undone."""
may_undo = asyncio.Event()
"""Set when they may be."""

trip = Saga("trip")


@trip.transaction
async def book(request: str, results: dict[str, Any]) -> str:
    """Book a seat."""
    return "seat"


@book.compensate
async def give_back(request: str, results: dict[str, Any]) -> None:
    """Give the seat back, once the test allows it."""
    undoing.append(request)
    await may_undo.wait()


@trip.transaction(compensate=None)
async def pay(request: str, results: dict[str, Any]) -> None:
    """Never end."""
    await asyncio.sleep(600)


booking = Workflow("booking", trip)


@step
async def start_booking(x: str) -> str:
    child = await current().astart_child(booking, x, id=f"booking of {x}")
    await asyncio.sleep(600)
    return child.id


agency = Workflow("agency", start_booking)
