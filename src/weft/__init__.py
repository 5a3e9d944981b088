"""
Durable dataflow workflows.

    >>> from weft import Workflow, step
    >>> greet = step(lambda name: f"hello, {name}", name="greet")
    >>> Workflow("greeting", greet).run("Ada").output
    'hello, Ada'
"""

# A worker that is told to stop while this is imported has nothing to release, and ends well.
import signal as _signal
import sys as _sys

if _sys.orig_argv[1:4] == ["-m", "weft", "worker"]:
    _signal.signal(_signal.SIGTERM, lambda _number, _frame: _sys.exit(0))

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
