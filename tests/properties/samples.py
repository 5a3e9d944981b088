"""
A fixed set of workflows, and everything about them that has an identity.

Run as a program it prints the identities, so that two processes can be compared.  The workflows hold what is
easily tied to one process: sets, dicts, closures, defaults, bound constants, functions of this module.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from weft import (
    INPUT,
    Workflow,
    accumulator,
    all_values,
    condition,
    context,
    each,
    join,
    latest,
    reduce,
    rule,
    state_of,
    step,
)

VOWELS = frozenset("aeiou")


@step
def words(text: str) -> list[str]:
    return text.split()


@step
def letters(text: str) -> set[str]:
    return set(text) - {" "}


@step
def sizes(found: list[str]) -> dict[str, int]:
    return {word: len(word) for word in set(found)}


@step
async def shout(word: str, mark: str = "!") -> str:
    return word.upper() + mark


@condition
def has_vowel(word: str, vowels: frozenset[str] = VOWELS) -> bool:
    return not vowels.isdisjoint(word)


@condition
def is_long(word: str) -> bool:
    return len(word) > 2


@accumulator(init=dict)
def seen(state: dict[str, int], found: list[str]) -> dict[str, int]:
    return {**state, **{word: state.get(word, 0) + 1 for word in found}}


@reduce(init=list)
def collect(acc: list[str], word: str) -> list[str]:
    return [*acc, word]


def scaled(factor: int, names: frozenset[str]) -> Callable[[str], int]:
    return lambda word: factor * len(word) + len(names)


COUNTS, LAST, EVERY = state_of("seen"), latest("sizes"), all_values("repeat")
UNIT = context("unit", default="words")

size = step(scaled(3, frozenset({"x", "y"})), name="size")
repeat = step(lambda word, times: word * times, name="repeat").bind(times=2)
total = reduce(lambda acc, x: acc + x, init=0, name="total")
report = step(lambda found, c=COUNTS, last=LAST, unit=UNIT: (len(found), c, last, unit), name="report")
last_of = step(lambda n, every=EVERY: (n, every), name="last_of")
summary = step(lambda text, found, used: (text, len(found), used), name="summary")
either = rule(when=has_vowel | ~is_long, then=lambda word: word[::-1], name="either")
both = rule(when=has_vowel & is_long, then=lambda word: (word, len(word)), name="both")

WORKFLOWS = (
    Workflow("pipeline", words >> [sizes, seen, report]),
    Workflow(
        "joins",
        [INPUT, words, letters] >> summary,
        join(words, letters, wait="any") >> step(len, name="first"),
        join(words, letters, wait="all_done") >> step(lambda a, b: (len(a), len(b)), name="done"),
    ),
    Workflow("rules", each([either, both]), INPUT >> step(len, name="count")),
    Workflow("maps", words >> each(is_long >> [shout, size, repeat]), shout >> collect, size >> total >> last_of),
    Workflow("sets", letters >> each(step(lambda letter: letter.upper(), name="upper"))),
)

INPUTS: dict[str, Any] = {
    "pipeline": "to be or not to be",
    "joins": "a rose is a rose",
    "rules": ["to", "sleep", "perchance", "hm"],
    "maps": "the quick brown fox is quick",
    "sets": "hello world",
}


def identities() -> dict[str, Any]:
    """Return hashes and versions of the workflows, and of the runnables and facts of a run of each."""
    return {workflow.name: _identity(workflow, INPUTS[workflow.name]) for workflow in WORKFLOWS}


def _identity(workflow: Workflow, value: Any) -> dict[str, Any]:
    run = workflow.plan(value, id="example")
    offered: dict[str, tuple[str, str]] = {}
    while run.is_runnable:
        for runnable in run.prepare():
            offered[f"{runnable.component} {runnable.inputs}"] = (runnable.id, runnable.idempotency_key)
        run.react()
    return {
        "hash": workflow.hash,
        "version": workflow.version,
        "runnables": offered,
        "facts": [run.hash_of(fact) for fact in run.facts()],
    }


if __name__ == "__main__":
    json.dump(identities(), sys.stdout)
