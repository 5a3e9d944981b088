"""
The cases that a fleet must get right, and the tests that show it.

A case is what happens, what follows from it, and tests: of this folder, of the store, of its contracts, or of the
runner, where the fleet does what every runner does.  Numbers that are missing belong to mechanisms that Weft has not.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
CONTRACTS = TESTS.parent / "src" / "weft" / "testing" / "contracts"


class Case(NamedTuple):
    """A case."""

    given: str
    then: str
    tests: tuple[str, ...]


CASES = {
    "K1": Case(
        "many claimers, many due runs",
        "each run is claimed once, and no claim takes more than its limit",
        ("test_no_two_of_many_claimers_ever_hold_the_same_run", "test_many_claimers_never_have_the_same_run"),
    ),
    "K2": Case(
        "a claimer that does not commit",
        "another one gets other runs at once",
        ("test_a_claim_that_does_not_commit_holds_up_no_other",),
    ),
    "K3": Case(
        "runs that are due later or have an owner",
        "they are not claimed; the others come by priority, due time and creation",
        (
            "test_a_run_that_is_due_later_is_left",
            "test_a_claim_owns_runs_in_a_new_epoch_and_no_other_has_them",
            "test_the_order_is_priority_then_due_time_then_creation",
        ),
    ),
    "K4": Case(
        "a lease that is over, with nothing that sweeps",
        "its runs are claimed",
        (
            "test_runs_of_a_dead_owner_are_free_and_its_late_append_is_refused",
            "test_the_runs_of_another_machine_are_free_when_the_lease_has_expired_and_not_before",
        ),
    ),
    "K5": Case(
        "many runs of dead owners, some of a living one, some finished",
        "the first are claimed batch by batch, the others are not touched",
        ("test_what_dead_owners_have_left_is_claimed_in_batches_and_nothing_else_is_touched",),
    ),
    "K6": Case(
        "a worker without room",
        "it takes nothing, until there is room",
        (
            "test_a_worker_without_room_takes_nothing_until_there_is_some",
            "test_a_claim_never_takes_more_than_there_is_room_for",
        ),
    ),
    "K7": Case(
        "a start that is cut off anywhere",
        "the run and its place in the queue are both there, or neither",
        (
            "test_a_client_whose_answers_are_lost_starts_each_run_once",
            "test_a_run_never_was_if_the_transaction_is_rolled_back",
            "test_an_attempt_in_doubt_creates_a_run_once",
        ),
    ),
    "K8": Case(
        "one name with two structures",
        "two versions beside each other; each run keeps its own",
        (
            "test_two_versions_of_the_code_in_one_fleet_and_rolling_back",
            "test_a_version_that_no_worker_knows_is_stranded",
            "test_other_queues_workflows_and_versions_are_left",
        ),
    ),
    "K10": Case(
        "a step that takes three leases, and another worker that looks for work",
        "it is executed once",
        (
            "test_a_step_that_takes_longer_than_three_leases_is_executed_once",
            "test_a_lease_is_renewed_while_the_event_loop_is_busy",
        ),
    ),
    "K11": Case(
        "a renewal by one that has lost its runs",
        "who has them keeps them, and the other is told",
        (
            "test_an_owner_that_was_frozen_past_its_lease_loses_what_was_taken_and_keeps_the_rest",
            "test_the_row_of_a_lease_that_was_removed_comes_back_with_its_runs",
        ),
    ),
    "K12": Case(
        "a worker that is killed while a step runs",
        "another one starts that step, and no completed one",
        (
            "test_workers_that_are_killed_at_random_lose_nothing",
            "test_a_killed_process_of_this_machine_frees_its_runs_at_once",
        ),
    ),
    "K13": Case(
        "an orderly stop",
        "the runs are free at once, and nothing is repeated",
        (
            "test_an_orderly_stop_leaves_runs_that_can_be_claimed_at_once",
            "test_an_orderly_stop_repeats_nothing",
            "test_a_second_signal_abandons_what_is_in_flight_and_frees_its_run",
        ),
    ),
    "K14": Case(
        "an owner that stands still beyond its lease, while another one finishes its runs",
        "it writes nothing when it goes on",
        (
            "test_a_worker_that_stood_still_beyond_its_lease_writes_nothing",
            "test_a_worker_that_stood_still_in_a_transaction_writes_nothing_and_stops_no_other",
            "test_a_worker_that_stood_still_with_steps_of_others_writes_nothing",
            "test_a_process_that_was_frozen_past_its_lease_changes_nothing_in_what_was_taken_over",
        ),
    ),
    "K15": Case(
        "owners that take runs from each other",
        "a position of a log is written once",
        (
            "test_owners_that_take_runs_from_each_other_never_write_one_position_twice",
            "test_while_a_process_is_sure_no_other_has_its_runs_and_in_an_epoch_one_process_writes",
        ),
    ),
    "K17": Case(
        "a run that is claimed again by the process that still has it",
        "what its past self says is refused",
        ("test_an_owner_that_takes_its_run_again_fences_off_its_past_self",),
    ),
    "K18": Case(
        "clocks that differ by more than a lease",
        "no run has two owners: leases are measured by the clock of the database",
        (
            "test_a_holder_is_never_sure_after_the_database_sees_its_lease_as_expired",
            "test_while_a_process_is_sure_no_other_has_its_runs_and_in_an_epoch_one_process_writes",
        ),
    ),
    "K19": Case(
        "a store that does not answer",
        "nothing is started that depends on what is not durable",
        (
            "test_an_input_is_durable_before_anything_runs_on_it",
            "test_a_holder_that_is_not_sure_of_its_lease_writes_nothing_until_it_is_renewed",
        ),
    ),
    "K20": Case(
        "a crash after a result was written",
        "the result is used, and the step is not executed again",
        (
            "test_what_was_durable_when_a_process_was_killed_is_never_executed_again",
            "test_a_crash_at_any_append_of_a_run_with_snapshots_changes_nothing",
        ),
    ),
    "K21": Case(
        "a crash after it was written that a step starts, and before it does",
        "it starts once",
        (
            "test_what_was_durable_when_a_process_was_killed_is_never_executed_again",
            "test_a_crash_at_any_append_changes_nothing",
        ),
    ),
    "K23": Case(
        "a crash while a run is completed",
        "it is finished and out of the queue, or neither",
        (
            "test_a_finished_run_leaves_the_queue",
            "test_a_message_that_comes_while_its_run_finishes_keeps_the_run_in_the_queue",
            "test_connections_that_are_cut_lose_and_repeat_nothing",
        ),
    ),
    "K24": Case(
        "a log that names what is not there",
        "the run is not driven, its readers are told, and no other run waits for it",
        (
            "test_a_damaged_run_stops_no_other_no_list_and_no_job",
            "test_a_log_that_lost_its_end_is_damage_that_no_repair_mends",
        ),
    ),
    "K25": Case(
        "a second outcome of a step",
        "it is ignored",
        (
            "test_what_a_worker_says_of_a_claim_that_is_over_is_ignored",
            "test_of_two_completions_through_the_inbox_the_first_counts",
            "test_an_outcome_counts_once_and_only_by_its_last_claim",
        ),
    ),
    "K28": Case(
        "a long sleep with nothing in flight",
        "the run leaves memory and has no owner; it is due at the time to wake",
        (
            "test_a_sleeping_run_is_released_and_wakes_when_it_is_due",
            "test_a_released_run_is_due_when_it_has_to_be_woken",
        ),
    ),
    "K29": Case(
        "the time to wake",
        "the run goes on then, not before, and repeats nothing; the time outlives restarts",
        (
            "test_a_sleeping_run_is_released_and_wakes_when_it_is_due",
            "test_a_sleep_is_over_once_and_in_time_whenever_a_process_crashes",
        ),
    ),
    "K30": Case(
        "a short sleep, or one beside something in flight",
        "the run stays in memory",
        ("test_a_run_that_waits_leaves_at_once_or_later_or_is_due_soon",),
    ),
    "K32": Case(
        "a sleep of no time, or of something that is no time",
        "it is over at once, or fails",
        (
            "test_a_sleep_that_was_not_told_how_long_is_refused",
            "test_a_function_that_does_not_say_a_time_fails_the_sleep",
        ),
    ),
    "K33": Case(
        "three attempts, all of which fail",
        "three executions, and each attempt is in the log with its times",
        (
            "test_78_a_driver_reports_every_attempt_and_how_it_ended",
            "test_every_attempt_says_when_it_ended_and_how_long_it_took",
        ),
    ),
    "K34": Case(
        "a restart between two attempts",
        "the wait ends when it was to, and does not begin anew",
        (
            "test_a_retry_survives_the_process",
            "test_the_wait_of_a_durable_step_outlives_a_crash_whatever_the_strategy",
        ),
    ),
    "K35": Case(
        "several rules for one failure",
        "the first that matches decides",
        (
            "test_the_first_rule_that_matches_wins_and_nothing_cascades",
            "test_the_decision_follows_from_policy_attempt_and_error",
        ),
    ),
    "K36": Case(
        "the last attempt has failed, and there is an error route",
        "it gets the failure",
        ("test_an_error_route_takes_it", "test_such_a_failure_takes_an_error_route"),
    ),
    "K37": Case(
        "the last attempt has failed, and there is none",
        "the run has failed, with type and message; it leaves the queue, can be read, and can be retried",
        ("test_a_failed_run_is_retried", "test_a_finished_run_leaves_the_queue"),
    ),
    "K38": Case(
        "a step that takes longer than its timeout",
        "the attempt has failed like any other; what it returns later is dropped",
        (
            "test_a_timeout_ends_the_attempt_and_its_late_result_is_dropped",
            "test_73_an_attempt_that_takes_too_long_has_failed_and_is_tried_again",
            "test_a_timeout_counts_from_the_start_on_the_other_worker",
        ),
    ),
    "K39": Case(
        "a process that executes steps is killed, with some in flight and with none",
        "what is in flight fails soon, or is offered to others; the process is replaced",
        (
            "test_a_death_fails_one_attempt",
            "test_a_death_between_two_steps_costs_no_attempt",
            "test_a_supervisor_replaces_workers_that_are_killed",
            "test_workers_that_are_killed_lose_no_element",
        ),
    ),
}
ABSENT = {9, 16, 22, 26, 27, 31}
"""Numbers that no case has."""


def defined() -> set[str]:
    """Return the names of all tests, those of the contracts included."""
    paths = [*TESTS.rglob("test_*.py"), *CONTRACTS.rglob("*.py")]
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in paths)
    return {
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_case_names_tests_that_exist() -> None:
    assert list(CASES) == [f"K{number}" for number in range(1, 40) if number not in ABSENT]
    assert [name for name, case in CASES.items() if not case.tests] == []
    assert {test for case in CASES.values() for test in case.tests} - defined() == set()
