"""A run as it was, while it goes on."""

from __future__ import annotations

import pytest

from weft import ProcessManager, Run, Workflow, accumulator, each, reduce, step
from weft.errors import AlreadyRunning

double = step(lambda x: x * 2, name="double")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")


def test_it_knows_what_the_run_knew_and_nothing_of_what_came_after() -> None:
    run = Workflow("w", double >> total).run(1)

    still = run.still()
    run.run(2)

    assert (still.values("double"), still.state_of("total")) == ([2], 2)
    assert (run.values("double"), run.state_of("total")) == ([2, 4], 6)
    assert Run.from_log(still.log()) == still


def test_it_answers_every_question() -> None:
    everything = reduce(lambda so_far, x: [*so_far, x], init=list, name="everything")
    run = Workflow("w", each(double) >> everything).run([1, 2])

    still = run.still()

    assert still.results() == run.results()
    assert str(still.explain("everything")) == str(run.explain("everything"))
    assert still.status == "idle"


def test_it_knows_states_by_key() -> None:
    order = ProcessManager("order", init=int, key=lambda event: event["id"])

    @order.on("paid")
    def paid(count: int, event: dict[str, object]) -> tuple[int, list[object]]:
        return count + 1, []

    run = Workflow("w", order).run({"event": "paid", "id": 7})
    still = run.still()
    run.run({"event": "paid", "id": 7})

    assert (still.state_of("order"), run.state_of("order")) == ({7: 1}, {7: 2})


def test_it_cannot_be_driven() -> None:
    still = Workflow("w", double).plan(1).still()

    with pytest.raises(AlreadyRunning):
        still.react_until_satisfied()
