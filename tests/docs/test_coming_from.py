"""The page for those who come from Runic or Waymark: every public name of theirs is on it."""

from __future__ import annotations

from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "coming-from.md").read_text(encoding="utf-8")
RUNIC = """
accumulator add add_rules add_scheduler_policy add_step add_steps add_with_events aggregate all_facts_of all_values_of
ancestry_depth append_runnable_events append_scheduler_policy apply_event apply_events apply_hook_fns apply_runnable
attach_after_hook attach_before_hook build_getter_fn build_log causal_depth checkpoint components condition connectable?
connectables connected_components context default disable_event_emission draw_meta_ref_edge enable_event_emission
event_log events_produced_since execute_runnable execute_with_policies fact_count facts fast_fail fetch_component
from_events from_log fsm get_component get_hooks get_results get_run_context get_store get_workflow invoke
invoke_with_events io_policy is_runnable? latest_fact_of latest_value_of list_workflows llm_policy log lookup map merge
merge_policies meta_dependencies meta_dependents new next_runnables next_steps pending_runnables plan plan_eagerly
prepare_for_dispatch prepare_meta_context prepared_runnables process_manager productions productions_by_component
purge_memory put_run_context raw_productions raw_productions_by_component raw_reactions react react_until_satisfied
reactions reduce remove_component required_context_keys resolve results resume root_ancestor_hash rule run saga
set_scheduler_policies skip_downstream_subgraph start_workflow state_machine state_of step step_ran? stop sub_components
to_cytoscape to_dot to_edgelist to_mermaid to_mermaid_sequence transmute validate_run_context via workflow
"""
"""The documented functions of Runic, Runic.Workflow, Runic.Runner, and of its policies."""
WAYMARK = """
ActionResultPayload Depend Depends ExhaustedRetriesError RetryPolicy ScheduleAlreadyExistsError ScheduleInfo
UnsupportedPatternError Workflow action bridge build_workflow_ir delete_schedule deserialize_result_payload
list_schedules pause_schedule provide_dependencies registry resume_schedule schedule_workflow serialize_error_payload
serialize_result_payload workflow workflow_registry
"""
"""The names that the package waymark exports."""


def test_every_name_of_theirs_is_on_the_page() -> None:
    runic, _, waymark = PAGE.partition("\n## Waymark\n")

    assert [name for name in RUNIC.split() if name not in runic] == []
    assert [name for name in WAYMARK.split() if name not in waymark] == []
