"""
Durable dataflow workflows.

    >>> from weft import Workflow, step
    >>> greet = step(lambda name: f"hello, {name}", name="greet")
    >>> Workflow("greeting", greet).run("Ada").output
    'hello, Ada'

Importing this package imports next to nothing: each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft import events
    from weft.core.components.accumulator import Accumulator, accumulator
    from weft.core.components.aggregate import Aggregate
    from weft.core.components.collect import Collect, GroupBy, collect, group_by
    from weft.core.components.condition import Condition, condition
    from weft.core.components.fsm import FSM, Transition
    from weft.core.components.join import Absent, Join, join
    from weft.core.components.loop import Loop
    from weft.core.components.map import Map, each
    from weft.core.components.pattern import capture
    from weft.core.components.process_manager import ProcessManager
    from weft.core.components.reduce import Reduce, Stop, reduce
    from weft.core.components.repeat import Repeat, repeat
    from weft.core.components.rule import Rule, RuleCheck, rule
    from weft.core.components.saga import Saga
    from weft.core.components.saga_outcome import SagaOutcome
    from weft.core.components.sleep import Sleep, sleep
    from weft.core.components.state_machine import StateMachine, state_machine
    from weft.core.components.step import Step, step
    from weft.core.components.wait_for import WaitFor, wait_for
    from weft.core.compose.component import Component
    from weft.core.compose.flow import INPUT, Flow, Fragment
    from weft.core.diff import RunDiff, WorkflowDiff, diff
    from weft.core.failure import Failure
    from weft.core.functions.current import Current, current
    from weft.core.functions.references import all_values, context, fact_count, latest, state_of, step_ran, transaction
    from weft.core.graph.port import Port
    from weft.core.lineage.fact import Fact
    from weft.core.lint import Finding
    from weft.core.run.preview import Preview
    from weft.core.run.run import Run
    from weft.core.run.runnable import Outcome, Runnable
    from weft.core.trace.trace import workflow
    from weft.core.workflow import Workflow
    from weft.fleet import AsyncClient, Client, registry
    from weft.local.counters import limits
    from weft.local.policy_driver import PolicyDriver, aexecute_with_policies, execute_with_policies
    from weft.policy.policy import Policy
    from weft.runner import AsyncRunner, Runner
else:
    from weft.lazy_names import lazy_names

    __getattr__ = lazy_names(
        __name__,
        {
            "weft.core.components.accumulator": ("Accumulator", "accumulator"),
            "weft.core.components.aggregate": ("Aggregate",),
            "weft.core.components.collect": ("Collect", "GroupBy", "collect", "group_by"),
            "weft.core.components.condition": ("Condition", "condition"),
            "weft.core.components.fsm": ("FSM", "Transition"),
            "weft.core.components.join": ("Absent", "Join", "join"),
            "weft.core.components.loop": ("Loop",),
            "weft.core.components.map": ("Map", "each"),
            "weft.core.components.pattern": ("capture",),
            "weft.core.components.process_manager": ("ProcessManager",),
            "weft.core.components.reduce": ("Reduce", "Stop", "reduce"),
            "weft.core.components.repeat": ("Repeat", "repeat"),
            "weft.core.components.rule": ("Rule", "RuleCheck", "rule"),
            "weft.core.components.saga": ("Saga",),
            "weft.core.components.saga_outcome": ("SagaOutcome",),
            "weft.core.components.sleep": ("Sleep", "sleep"),
            "weft.core.components.state_machine": ("StateMachine", "state_machine"),
            "weft.core.components.step": ("Step", "step"),
            "weft.core.components.wait_for": ("WaitFor", "wait_for"),
            "weft.core.compose.component": ("Component",),
            "weft.core.compose.flow": ("Flow", "Fragment", "INPUT"),
            "weft.core.diff": ("RunDiff", "WorkflowDiff", "diff"),
            "weft.core.failure": ("Failure",),
            "weft.core.functions.current": ("Current", "current"),
            "weft.core.functions.references": (
                "all_values",
                "context",
                "fact_count",
                "latest",
                "state_of",
                "step_ran",
                "transaction",
            ),
            "weft.core.graph.port": ("Port",),
            "weft.core.lineage.fact": ("Fact",),
            "weft.core.lint": ("Finding",),
            "weft.core.run.preview": ("Preview",),
            "weft.core.run.run": ("Run",),
            "weft.core.run.runnable": ("Outcome", "Runnable"),
            "weft.core.trace.trace": ("workflow",),
            "weft.core.workflow": ("Workflow",),
            "weft.fleet": ("AsyncClient", "Client", "registry"),
            "weft.local.counters": ("limits",),
            "weft.local.policy_driver": ("PolicyDriver", "aexecute_with_policies", "execute_with_policies"),
            "weft.policy.policy": ("Policy",),
            "weft.runner": ("AsyncRunner", "Runner"),
        },
        submodules=(
            *("calling", "core", "errors", "events", "executors", "fleet", "local", "log", "policy", "ports", "runner"),
            *("schedulers", "stores", "telemetry", "typing"),
        ),
    )

__all__ = [
    "FSM",
    "INPUT",
    "Absent",
    "Accumulator",
    "Aggregate",
    "AsyncClient",
    "AsyncRunner",
    "Client",
    "Collect",
    "Component",
    "Condition",
    "Current",
    "Fact",
    "Failure",
    "Finding",
    "Flow",
    "Fragment",
    "GroupBy",
    "Join",
    "Loop",
    "Map",
    "Outcome",
    "Policy",
    "PolicyDriver",
    "Port",
    "Preview",
    "ProcessManager",
    "Reduce",
    "Repeat",
    "Rule",
    "RuleCheck",
    "Run",
    "RunDiff",
    "Runnable",
    "Runner",
    "Saga",
    "SagaOutcome",
    "Sleep",
    "StateMachine",
    "Step",
    "Stop",
    "Transition",
    "WaitFor",
    "Workflow",
    "WorkflowDiff",
    "accumulator",
    "aexecute_with_policies",
    "all_values",
    "capture",
    "collect",
    "condition",
    "context",
    "current",
    "diff",
    "each",
    "events",
    "execute_with_policies",
    "fact_count",
    "group_by",
    "join",
    "latest",
    "limits",
    "reduce",
    "registry",
    "repeat",
    "rule",
    "sleep",
    "state_machine",
    "state_of",
    "step",
    "step_ran",
    "transaction",
    "wait_for",
    "workflow",
]


def __dir__() -> list[str]:
    return __all__
