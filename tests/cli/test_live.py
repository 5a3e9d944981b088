"""The commands that a live view proposes."""

from __future__ import annotations

from weft import Workflow, step, wait_for
from weft.cli.live import answers


def test_a_signal_is_proposed_where_another_process_can_send_it() -> None:
    run = Workflow("orders", step(abs) >> wait_for("approved")).run(1)

    assert answers(run, " --store runs.db") == [f"to answer: weft signal {run.id} approved VALUE --store runs.db"]


def test_a_run_in_memory_proposes_a_store_instead_of_a_command_that_cannot_reach_it() -> None:
    run = Workflow("orders", step(abs) >> wait_for("approved")).run(1)

    assert answers(run, " --store memory:") == ["waits for approved; to answer it, run it with --store runs.db"]
