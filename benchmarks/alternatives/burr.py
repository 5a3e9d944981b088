"""
Burr: actions on a state, and transitions between them.

An application holds the state of its run, so one is built and run again: the
last action leads back to the first, which sets the state anew.  No tracker, no
persister, no hooks.  A state machine runs one action at a time: there is no
natural form of leaves or of a map in one application.
"""

from __future__ import annotations

from itertools import pairwise

from burr.core import ApplicationBuilder, State, action

from benchmarks.harness import Work


@action(reads=[], writes=["x"])
def _first(state: State) -> State:
    return state.update(x=1)


@action(reads=["x"], writes=["x"])
def _add_one(state: State) -> State:
    return state.update(x=state["x"] + 1)


def chain(size: int) -> Work:
    """Actions in a row, each adding one."""
    names = [f"step_{i}" for i in range(size)]
    application = (
        ApplicationBuilder()
        .with_actions(**{names[0]: _first}, **dict.fromkeys(names[1:], _add_one))
        .with_transitions(*pairwise([*names, names[0]]))
        .with_state(x=0)
        .with_entrypoint(names[0])
        .build()
    )

    def call() -> object:
        _, _, state = application.run(halt_after=[names[-1]])
        return state["x"]

    return Work(call, expected=size, units=size)
