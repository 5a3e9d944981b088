"""
Writes the pages of the reference that come from docstrings: options, states and errors.  ``make pictures`` runs it.

A test checks that the files are what this program would write.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from weft import AsyncRunner, Policy, errors
from weft.cli.glyphs import GLYPHS
from weft.core.draw.picture import Box, Edge, Picture
from weft.core.draw.progress import State
from weft.core.draw.svg import to_svg
from weft.fleet.worker import State as WorkerState
from weft.policy.limits import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.runner.jobs.decision import JobState

DOCS = Path(__file__).parent
NOTE = "<!-- Written by docs/tables.py from the docstrings: make pictures. -->"

# How each option is written.  A test checks that none is missing.
EXAMPLES: dict[str, dict[str, str]] = {
    "Runner": {
        "store": '"runs.db"',
        "executor": '"process"',
        "max_concurrency": "64",
        "checkpoint": '"pipelined"',
        "context": '{"api_key": key}',
        "grace": "30",
        "threads": "100",
        "processes": "4",
        "executors": '{"gpu": MyExecutor()}',
        "clock": "VirtualClock()",
        "counters": "MyCounters()",
        "modules": "[shop]",
        "collector": '"seldom"',
        "blocking_threshold": "0.1",
        "check_arguments": "True",
        "resident": "1_000",
        "snapshot_every": "1_000",
        "continue_after": "10_000",
        "memory_budget": '"512 MB"',
        "keep_values_for": "3600",
        "scheduler": "ChainBatching()",
    },
    "start": {
        "workflow": "orders",
        "input": '{"tea": 2}',
        "id": '"order-17"',
        "open": "True",
        "if_exists": '"return"',
        "unique": '"customer-42"',
        "portable": "True",
        "max_concurrency": "4",
        "checkpoint": "every_n(100)",
        "snapshot_every": "500",
        "continue_after": "5_000",
        "keep_values_for": "60",
        "executor": '"inline"',
        "context": '{"region": "eu"}',
        "policies": "[(charge, Policy.io())]",
        "policies_mode": '"replace"',
        "deadline": "3_600",
        "on_complete": '"shop:notify"',
        "on_complete_args": '("ada",)',
        "hooks": "WorkerHooks(on_idle=seen)",
        "by": '"api"',
    },
    "Policy": {
        "max_retries": "3",
        "backoff": '"exponential"',
        "base_delay": "0.5",
        "max_delay": "30.0",
        "timeout": "10.0",
        "deadline": "120.0",
        "on_failure": '"dead_letter"',
        "fallback": "lambda runnable, error: Value(0)",
        "compensation": 'undo, on_failure="compensate"',
        "retryable": "(ConnectionError,)",
        "non_retryable": "(ValueError,)",
        "circuit_breaker": 'CircuitBreaker("bank")',
        "rate_limit": 'RateLimit("bank", 10)',
        "concurrency_limit": 'ConcurrencyLimit("bank", 4)',
        "execution_mode": '"durable"',
        "priority": "5",
        "idempotency_key": "lambda runnable: runnable.component",
        "delay": "60.0",
        "scheduled_at": "datetime(2027, 1, 1, tzinfo=UTC)",
        "queue_timeout": "30.0",
        "heartbeat": "15.0",
        "checkpoint_after": "True",
        "queue": '"fetching"',
        "executor": '"process"',
        "telemetry_prefix": '"shop.bank"',
        "log_level": '"info"',
        "metadata": '{"team": "payments"}',
    },
}

# The meaning of fields that have no docstring.
MEANINGS = {
    "base_delay": "The first wait, in seconds.",
    "max_delay": "No wait is longer than this many seconds.",
    "retryable": "Which errors are worth another attempt: classes, or a function of the error.",
    "non_retryable": "Errors that are never tried again, even if `retryable` names them.",
    "circuit_breaker": "Stops calling a service that keeps failing.",
    "rate_limit": "Limits how many attempts start in a period.",
    "concurrency_limit": "Limits how many attempts run at once.",
    "execution_mode": "`sync`; `async`: a plain function on a thread; `durable`: the dispatch is stored before the "
    "attempt; `external`: completed from outside, with a token.",
    "executor": "Where it runs, in place of the executor of the run.",
    "telemetry_prefix": "The logger that `log_level` writes to, and a field of its telemetry.",
    "log_level": "The level of the line that is logged when it has ended.",
    "metadata": "Any data; it is in the log with the dispatch, and in telemetry.",
    "name": "The name of the limit; all policies that use it share the limit.",
    "failure_threshold": "The breaker opens after this many failures in a row.",
    "reset_timeout": "The breaker lets probes through after this many seconds.",
    "probes": "How many calls at a time test whether it works again.",
    "on_open": "What happens to other calls meanwhile: `fail`, `skip` or `wait`.",
    "limit": "How many attempts may start in `per` seconds, or run at once.",
    "per": "The period of `limit`, in seconds.",
    "burst": "How many may start at once; as many as `limit` if not given.",
}

STATES = {
    "running": (
        "something can be done; if its reason says `undoing`, it was cancelled, and only compensations run",
        "`send`, `finish` if it is open",
    ),
    "waiting": (
        "all remaining work waits for a time, a signal, a person or a limit",
        "`signal`, `complete`; `send`, `finish` if it is open",
    ),
    "idle": ("the run is open, and nothing is left to do", "`send`, `finish`"),
    "parked": ("a person has to look at it; its reason says why", "`resume`, `retry`, `discard`"),
    "completed": ("finished, without unhandled failures", "nothing: this is final"),
    "failed": (
        "finished; something failed, and no error route, fallback or skip handled it",
        "`retry`, `upgrade`, `discard`",
    ),
    "cancelled": ("closed before its work was done, and undone unless `undo=False` was said", "nothing: this is final"),
}
CANCELLED = {
    "running": "or `waiting`, `idle`, `parked`: it was not cancelled",
    "undoing": "`running`, with a reason that says who has cancelled it and why; only compensations run",
    "parked": "a compensation failed for good: `retry` or `discard` it, or `cancel` with `undo=False`",
    "cancelled": "nothing is left to undo, also in the children that go with the run",
}
CANCELLED_MOVES = [
    ("running", "undoing", "cancel"),
    ("running", "cancelled", "nothing to undo"),
    ("undoing", "cancelled", "all undone"),
    ("undoing", "parked", "undoing fails"),
    ("parked", "cancelled", "undo=False"),
]
MOVES = [
    ("waiting", "running", "something comes"),
    ("idle", "running", "something comes"),
    ("running", "parked", "a person must look"),
    ("running", "completed", "all done"),
    ("running", "failed", "failure unhandled"),
    ("running", "cancelled", "cancel, all undone"),
]
BACK = [
    ("running", "waiting", "all that is left waits"),
    ("running", "idle", "open, all done"),
    ("parked", "running", "resume"),
    ("failed", "running", "retry"),
]
SAGA = {
    "pending": "nothing has reached it",
    "running": "a transaction runs, or is next",
    "compensating": "a transaction failed, and the completed ones are being undone",
    "completed": "all transactions completed",
    "aborted": "one failed, and all before it have been undone",
    "stuck": "a compensation failed for good: `retry` or `discard` it",
}
SAGA_MOVES = [
    ("pending", "running", "input"),
    ("running", "completed", "all done"),
    ("running", "compensating", "one fails"),
    ("compensating", "aborted", "all undone"),
    ("compensating", "stuck", "undoing fails"),
]
COMPONENT_STATES: dict[State, str] = {
    "unreached": "nothing has come to it yet",
    "ready": "it has what it needs, and an attempt is about to start, or will be retried",
    "waiting": "for a time, a signal, a completion, a limit, or something that it reads",
    "running": "an attempt is in flight",
    "done": "it has produced its value",
    "gated": "its condition did not hold",
    "skipped": "its policy skipped it",
    "failed": "its last attempt failed",
}
COMPONENT_MOVES = [
    ("unreached", "ready", "it has all it needs"),
    ("unreached", "gated", "its condition says no"),
    ("ready", "waiting", "it must wait"),
    ("ready", "running", "an attempt starts"),
    ("waiting", "done", "time or signal"),
    ("running", "done", "a value"),
    ("running", "skipped", "policy: skip"),
    ("running", "failed", "the last attempt"),
]
COMPONENT_BACK = [
    ("waiting", "ready", "limit or value is there"),
    ("running", "ready", "an attempt fails"),
    ("failed", "ready", "retry"),
]
JOB: dict[JobState, str] = {
    "running": "workers send what it says to the runs that match",
    "paused": "it sends nothing until `resume_job`",
    "completed": "every run that matches was visited",
    "cancelled": "it was stopped; what it has sent stays sent",
}
JOB_MOVES = [
    ("running", "paused", "pause"),
    ("running", "completed", "all visited"),
    ("running", "cancelled", "stop"),
    ("paused", "cancelled", "stop"),
]
JOB_BACK = [("paused", "running", "resume")]
WORKER: dict[WorkerState, str] = {
    "new": "it was made, and has no connection",
    "opening": "it connects, and gets its lease",
    "working": "it claims runs and drives them",
    "draining": "it claims none, and releases its runs when nothing of them is in flight",
    "drained": "it has no runs, and claims none",
    "closing": "it was told to stop: steps in flight end, or are released after the grace time",
    "stopped": "it has ended, and its lease with it",
}
WORKER_MOVES = [
    ("new", "opening", "open"),
    ("opening", "working", "it has its lease"),
    ("working", "draining", "drain"),
    ("draining", "drained", "all are released"),
    ("working", "closing", "SIGTERM"),
    ("drained", "closing", "SIGTERM"),
    ("closing", "stopped", "all is written"),
]
WORKER_BACK = [("drained", "opening", "resume")]
BREAKER = {
    "closed": "calls go through",
    "open": "calls fail, are skipped or wait, as `on_open` says; after `reset_timeout` a few probes go through",
}
BREAKER_MOVES = [("closed", "open", "too many failures")]
BREAKER_BACK = [("open", "closed", "a probe succeeds")]

# What to do, where neither the docstring nor the message of an error says it.
REMEDIES = {
    "WeftError": "Catch it to catch everything that Weft raises on purpose.",
    "DefinitionError": "Correct the definition; it is raised where the workflow is built, before anything runs.",
    "CyclicWorkflow": "Remove one of the edges that it names, or use `repeat(...)` for a loop.",
    "InvalidComponent": "Correct the component that the message names.",
    "InvalidFragment": "Make a step of a function first: `step(function)`.",
    "InvalidJoin": "Put a step between: `[a, b] >> combine >> c`, or name two parents or more.",
    "InvalidPolicy": "Change the field that the message names, or run the workflow with a runner.",
    "MixedRegions": "Use the component once, and `component.named('other')` in the other place.",
    "TracingError": "Put the code that uses the value into a step.",
    "UnknownComponent": "Use one of the names that the message lists.",
    "UnknownReference": "Name a component of the workflow; the message lists them.",
    "WrongArity": "Give the function as many required parameters as it has parents, bind the others, or say `spread=True`.",
    "ExecutionError": "See which of its subclasses it is.",
    "StepFailed": "Read its `__cause__`; then `retry` the run, or give the component a policy or an error route.",
    "DescribedError": "Import the module of the exception to get the class itself.",
    "LoopExhausted": "Raise `at_most`, correct `until`, or say `otherwise='last'`.",
    "NotACollection": "Return a list; strings, bytes and mappings are not taken apart.",
    "CannotSpread": "Return a collection with as many items as the function has parameters.",
    "StepTimeout": "Raise `timeout` in its policy, or make the step faster.",
    "SignalTimeout": "Handle it with `on_error`, or `retry` the run to wait again.",
    "StepCancelled": "`retry` the run if it should be done after all.",
    "ExternalFailure": "Handle it with `on_error` or a policy; the text is the sender's.",
    "SilentStep": "Call `current().heartbeat()` more often, or raise `heartbeat`.",
    "CircuitOpen": "Wait until the service works again, or give the component a `fallback`.",
    "InvalidFallback": "Return `Value(...)`, `RetryWith(...)` or `runnable.using(function)`.",
    "InvalidStateChange": "Return the next state, and where the component has one a list of commands or events.",
    "BatchFailed": "See the failure of the element; handle it with `on_error` inside the `each`.",
    "ExecutorError": "See which of its subclasses it is.",
    "RunError": "See which of its subclasses it is.",
    "NoRun": "Call it inside a run, or pass the value of the parameter.",
    "NoRunner": "Start its run with a runner, on a thread or as a coroutine.",
    "NoToken": "Say `execution_mode='external'` in the policy of the step.",
    "InvalidToken": "Pass the token as `current().token` returned it.",
    "TokenExpired": "Nothing: it was answered already, or too late. The message says which.",
    "InvalidSignal": "Send a value that fits the `schema` of the `wait_for`.",
    "NothingProduced": "The message names the gate or the failure; pass `default=` to get a value anyway.",
    "UnknownRunnable": "Apply outcomes to the run that prepared them.",
    "RunnerError": "See which of its subclasses it is.",
    "InvalidOption": "Use one of the values that the message lists.",
    "RunnerClosed": "Use the runner inside its `with` block.",
    "RunBusy": "Wait until the run is idle.",
    "AnotherGraph": "Look at `upgrade(id, workflow, preview=True)`, then `upgrade`; `resume(id)` without a workflow continues the run as it is.",
    "WorkersEnded": "Read the output of these processes, and fix what ends them.",
    "ScheduleNotFound": "Use one of the names that `schedules()` lists.",
    "JobNotFound": "Use one of the ids that `jobs()` lists.",
    "JobTimeout": "Wait longer, or follow it with `watch_job(id)`.",
    "WaitTimeout": "Wait longer, or look at the `log()` of the run.",
    "DuplicateHandler": "`detach(handler_id)` first, or use another id.",
    "UnknownTelemetryEvent": "Use one of the names in `telemetry.EVENTS`.",
    "UniqueKeyTaken": "`wait()` for that run, `cancel(id)` it, or use another key.",
    "UnknownClass": "Mention the class in an annotation of the function that makes it, or register it: `weft.log.register(Class)`.",
    "InvalidDrawing": "Use one of the directions or kinds that the message lists.",
    "HistoryNotLoaded": "`await run.load()` first, or resume the run with `rehydration='full'`.",
    "HistoryTruncated": "Ask for the present state, the results or later events, which can be read.",
    "OwnershipLost": "Drop this copy: the new owner continues the run.",
    "RunFailed": "See `failures`; fix the cause and `retry`.",
    "RunClosed": "Start another run.",
    "CommandError": "Correct the command line; `--help` lists the options.",
    "ImportFailed": "Correct the name, or what the module raises.",
    "StoreNotNamed": "Say `--store runs.db`, set `WEFT_STORE`, or write it into `weft.toml`.",
    "TelemetryError": "See which of its subclasses it is.",
    "AlreadyInstrumented": "Leave the second call out, or call `uninstrument()` first.",
    "LogError": "See which of its subclasses it is.",
    "InvalidEvent": "Load the log from its store; do not edit logs.",
    "StoreError": "See which of its subclasses it is.",
    "InvalidAppend": "Correct the store or the program that appends.",
    "InvalidStoreOption": "Correct the option that the message names.",
    "CorruptLog": "Restore the store from a copy, upgrade Weft, or delete the run.",
    "ResolutionError": "Import the module that defines the workflow.",
    "InvalidArgument": "Pass what the message asks for.",
    "InvalidWait": "Return a number of seconds or a `timedelta`; for `until=`, a `datetime` with a time zone.",
    "DeadlineExceeded": "Raise the `deadline`, or give the component a `fallback`; no further attempt is made.",
    "WorkerDied": "Look at the code and the memory that the step uses; `max_retries` starts it in another process.",
    "NotTransferable": "Define the function at the top of a module, and pass only data.",
    "NoSuchLetter": "See `run.dead_letters`; `retry(id)` also runs failures that were not kept.",
    "UnknownSignal": "Use the name of a signal that a `wait_for` of the workflow waits for.",
    "RunNotHeld": "`resume(id)` it here, or call the process that drives it.",
    "CodeNotImported": "Name the module: `--import shop.flows`.",
    "RunNotFound": "Start it first; `runs()` and `weft ls` list the ids that exist.",
    "UnresolvedFunction": "Import the module that defines the steps, or hand the workflow over with `register`.",
    "UnresolvedConstant": "Hand the workflow over with `register`, or bind data.",
    "Stuck": "Send what is waited for, or `advance` the time.",
    "RunReplaced": "Use the handle of the later start, or pass the id to the runner.",
    "TransactionEnded": "Use the transaction only inside the step, and leave its end to Weft.",
    "TransactionLost": "Nothing: the step runs again, up to three times. If that fails too, look at the server.",
    "RunFrozen": "Call the runner (`send`, `set_policies`, `retry`), or change a copy: `Run.from_log(run.log())`.",
    "RunParked": "See its reason, fix the cause, then `resume(id)`.",
    "RedactedRun": "Read it, or `fork` it where it has values.",
    "UnwrittenEvents": "Resume these runs: they go on from their last checkpoint.",
    "LostCommits": "Keep a copy of all files, restore a better copy, or delete the `-commits` file to go on with the present state.",
    "ClusterUnreachable": "Start the cluster, correct its address, or install what the message names.",
    "DurabilityBroken": "Fix the step that the report names, or list what differs by design in `ignore=`.",
}


def page(title: str, intro: str, *parts: str) -> str:
    """Return a page."""
    return f"# {title}\n\n{NOTE}\n\n{intro}\n" + "".join(f"\n{part.rstrip()}\n" for part in parts)


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", r"\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


def prose(text: str) -> str:
    """Return a docstring as Markdown in one line."""
    text = re.sub(r":\w+:`~?\.?([^`]*)`", r"`\1`", " ".join(text.split())).replace("``", "`")
    return re.sub(r"(?<![\w*`])\*(\w+)\*(?![\w*])", r"`\1`", text)


# -- options -------------------------------------------------------------------------------------


def arguments(function: Any) -> dict[str, str]:
    """Return what the docstring of *function* says of each of its arguments."""
    section = re.search(r"^Args:\n(.*?)(?=^\w|\Z)", inspect.getdoc(function) or "", re.MULTILINE | re.DOTALL)
    found = re.findall(r"^    (\w+): (.*?)(?=^    \w+:|\Z)", section[1] if section else "", re.MULTILINE | re.DOTALL)
    return {name: prose(text) for name, text in found}


def default(value: object) -> str:
    """Return a default as it is written."""
    if value is inspect.Parameter.empty:
        return "required"
    if type(value).__name__ in ("Missing", "_Missing") or repr(value).startswith("<"):
        return ""
    names = {"()": "`()`", "(<class 'Exception'>,)": "`(Exception,)`"}
    return names.get(repr(value), f"`{value!r}`")


def of_call(name: str, function: Any, first: str) -> list[tuple[str, ...]]:
    """Return a row for every parameter of *function*; *first* says what the first one is for."""
    described = arguments(function)
    rows: list[tuple[str, ...]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        meaning = described.get(parameter.name, first if not rows else "")
        example = EXAMPLES[name].get(parameter.name, "")
        written = (
            example if name == "start" and parameter.name in ("workflow", "input") else f"{parameter.name}={example}"
        )
        rows.append(
            (f"`{parameter.name}`", default(parameter.default), capital(meaning), f"`{written}`" if example else "")
        )
    return rows


def capital(text: str) -> str:
    """Return a sentence with a capital letter."""
    return text[:1].upper() + text[1:]


def attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    [body] = [node for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef)]
    found: dict[str, str] = {}
    for field, following in zip(body.body, body.body[1:], strict=False):
        match field, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = prose(text)
    return found


def of_policy() -> Iterator[tuple[str, ...]]:
    """Return a row for every field of a policy."""
    documented = attribute_docs(Policy)
    for name in Policy.__struct_fields__:
        example = EXAMPLES["Policy"].get(name, "")
        meaning = documented.get(name) or MEANINGS.get(name, "")
        value = Policy.DEFAULTS[name]
        shown = "`(Exception,)`" if value == (Exception,) else default(value)
        yield f"`{name}`", shown, meaning, f"`Policy({name}={example})`" if example else ""


def of_limits() -> Iterator[tuple[str, ...]]:
    """Return a row for every option of every limit."""
    examples: dict[type, msgspec.Struct] = {
        RateLimit: RateLimit("api", 10, 1.0, 2),
        ConcurrencyLimit: ConcurrencyLimit("api", 4),
        CircuitBreaker: CircuitBreaker("api", 5, 30.0, 1, "wait"),
    }
    for kind, example in examples.items():
        for field in msgspec.structs.fields(kind):
            value = getattr(example, field.name)
            required = field.default is msgspec.NODEFAULT
            shown = "required" if required else "`limit`" if field.default is None else f"`{field.default!r}`"
            yield (
                f"`{kind.__name__}`",
                f"`{field.name}`",
                shown,
                MEANINGS.get(field.name, ""),
                f"`{field.name}={value!r}`",
            )


def options() -> str:
    """Return the page of all options."""
    head = ("option", "default", "means", "example")
    runner = (
        "## Runner\n\n`Runner(store, ...)` and `AsyncRunner(store, ...)` take the same options.\n\n"
        + table(head, of_call("Runner", AsyncRunner.__init__, "Where runs are kept."))
        + '\n\n```python\nfrom weft import Runner, Workflow, step\n\nwith Runner("runs.db", max_concurrency=64, grace=30) as runner:\n'
        "    assert runner.count() == 0\n```"
    )
    start = (
        "## start\n\n`runner.start(workflow, input, ...)`. `start_many`, `resume` and `resume_all` also take the options "
        "that say how a run is driven; see [the runner](runner.md#starting-feeding-waiting).\n\n"
        + table(head, of_call("start", AsyncRunner.start, "The workflow to run."))
        + '\n\n```python\ndouble = Workflow("double", step(lambda x: 2 * x, name="double"))\n\nwith Runner() as runner:\n'
        '    handle = runner.start(double, 21, id="answer", deadline=60, by="api")\n    assert handle.result() == 42\n```'
    )
    policy = (
        "## Policy\n\nAll times are seconds. A rule of a workflow, a run or a call says which components a policy is for; "
        "see [policies](policies.md).\n\n"
        + table(head, of_policy())
        + '\n\n```python\nfrom weft import Policy\n\npatient = double.with_policies([("double", Policy(max_retries=3, '
        "timeout=10.0))])\nassert patient.run(4).output == 8\n```"
    )
    limits = (
        "## Limits\n\nA limit is a field of a policy. It is known by its name: everything that uses the name shares it.\n\n"
        + table(("limit", *head), of_limits())
        + "\n\n```python\nfrom weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit\n\npolicy = Policy(\n"
        '    rate_limit=RateLimit("api", 10, per=1.0, burst=2),\n    concurrency_limit=ConcurrencyLimit("api", 4),\n'
        '    circuit_breaker=CircuitBreaker("api", failure_threshold=5, reset_timeout=30.0, on_open="wait"),\n)\n'
        'assert double.with_policies([("double", policy)]).run(4).output == 8\n```'
    )
    return page("Options", "Every option of a runner, a start, a policy and a limit.", runner, start, policy, limits)


# -- states --------------------------------------------------------------------------------------


def machine(
    name: str, states: Mapping[str, str], moves: list[tuple[str, str, str]], back: list[tuple[str, str, str]]
) -> str:
    """Return a state machine as SVG."""
    boxes = tuple(Box(state, "step", state, note=note) for state, note in states.items())
    forth = [Edge(source, target, label=label) for source, target, label in moves]
    again = [Edge(source, target, label=label, is_back=True) for source, target, label in back]
    return to_svg(Picture(name, boxes, (), tuple(forth + again)))


def states() -> str:
    """Return the page of all states."""
    run = (
        "## A run\n\n![the states of a run, and what leads from one to the next](pictures/run-states.svg)\n\n"
        + table(("status", "means", "accepts"), [(f"`{name}`", *said) for name, said in STATES.items()])
        + "\n\n`cancel` leads from every state but `completed` and `failed` to `cancelled`, when all is undone. A run that is started with its "
        "input finishes by itself; a run that is started without input, or with `open=True`, stays open until "
        "`finish`, and is `idle` in between. [The runner](runner.md#the-states-of-a-run) says more.\n\n"
        "```python\nfrom weft import Runner, Workflow, "
        'step\n\nshare = Workflow("share", step(lambda n: 12 // n, name="share"))\n\nwith Runner() as runner:\n'
        '    assert runner.start(share, 3).wait().status == "completed"\n'
        '    assert runner.start(share, 0).wait().status == "failed"\n'
        '    assert runner.start(share, 3, open=True).wait().status == "idle"\n```'
    )
    component = (
        "## A component in a run\n\n![the states of a component](pictures/component-states.svg)\n\n"
        "Pictures, pages and the terminal use the same signs. A component that fails and has an error route is `failed`, "
        "and the route goes on.\n\n"
        + table(
            ("sign", "state", "means"), [(GLYPHS[name], f"`{name}`", said) for name, said in COMPONENT_STATES.items()]
        )
    )
    others = (
        drawn("A run that is cancelled", "cancelled-run", "state", CANCELLED),
        drawn("A saga", "saga", "`run.state_of(saga).status`", SAGA),
        drawn("A job", "job", "state of [a job](../how-to/fleet.md#many-runs-at-once)", JOB),
        drawn("A worker of a fleet", "worker", "state in `weft workers`", WORKER),
        drawn("A circuit breaker", "breaker", "`CircuitBreaker`", BREAKER),
    )
    intro = "Every status that a run, a component, a saga, a job, a worker or a circuit breaker can have."
    return page("States", intro, run, component, *others)


def drawn(title: str, name: str, head: str, meanings: Mapping[Any, str]) -> str:
    """Return a section with the picture *name* and what its states mean."""
    picture = f"![the states of {title[:1].lower()}{title[1:]}](pictures/{name}-states.svg)"
    return f"## {title}\n\n{picture}\n\n" + table(
        (head, "means"), [(f"`{state}`", said) for state, said in meanings.items()]
    )


def pictures() -> dict[str, str]:
    """Return the pictures of the states, by their path in the documentation."""
    machines: dict[str, tuple[str, Iterable[str], list[tuple[str, str, str]], list[tuple[str, str, str]]]] = {
        "run": ("a run", STATES, MOVES, BACK),
        "component": ("a component", COMPONENT_STATES, COMPONENT_MOVES, COMPONENT_BACK),
        "cancelled-run": (
            "a run that is cancelled",
            CANCELLED,
            CANCELLED_MOVES,
            [("parked", "undoing", "retry, discard")],
        ),
        "saga": ("a saga", SAGA, SAGA_MOVES, [("stuck", "compensating", "retry")]),
        "job": ("a job", JOB, JOB_MOVES, JOB_BACK),
        "worker": ("a worker of a fleet", WORKER, WORKER_MOVES, WORKER_BACK),
        "breaker": ("a circuit breaker", BREAKER, BREAKER_MOVES, BREAKER_BACK),
    }
    return {
        f"reference/pictures/{name}-states.svg": machine(f"the states of {of}", dict.fromkeys(states, ""), moves, back)
        for name, (of, states, moves, back) in machines.items()
    }


# -- errors --------------------------------------------------------------------------------------


def message(node: ast.expr) -> str:
    """Return a text that a program makes, with … for what it fills in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(message, values))
        case ast.BinOp(left=left, right=right):
            return message(left) + message(right)
        case _:
            return "…"


def advice(body: ast.ClassDef) -> str:
    """Return what the message of an error says to do: what follows its first semicolon."""
    for node in ast.walk(body):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            texts = [message(each) for each in node.args if not isinstance(each, ast.Name)]
            _, _, told = (texts[0] if texts else "").partition("; ")
            if re.search(r"\w{3}", told):
                return capital(told.rstrip("… ").strip()) + "."
    return ""


def group_of(kind: type) -> type:
    """Return the group that an error belongs to: the ancestor right below the root."""
    ancestors = [each for each in kind.__mro__ if issubclass(each, errors.WeftError)]
    return ancestors[-2] if len(ancestors) > 1 else ancestors[-1]


def error_page() -> str:
    """Return the page of all errors."""
    source = ast.parse(inspect.getsource(errors))
    bodies = {node.name: node for node in source.body if isinstance(node, ast.ClassDef)}
    groups: dict[type, list[tuple[str, ...]]] = {}
    for name, body in bodies.items():
        kind = getattr(errors, name)
        remedy = REMEDIES.get(name) or prose(advice(body))
        row = (f"`{name}`", prose((inspect.getdoc(kind) or "").partition("\n\n")[0]), remedy)
        groups.setdefault(group_of(kind), []).append(row)
    lone = [row for kind, rows in groups.items() if len(rows) == 1 for row in rows]
    parts = [
        f"## {kind.__name__}\n\n" + table(("error", "cause", "remedy"), rows)
        for kind, rows in groups.items()
        if len(rows) > 1
    ]
    example = (
        "```python\nfrom weft import Workflow, step\nfrom weft.errors import DefinitionError, DuplicateName, WeftError\n\n"
        'try:\n    Workflow("w", step(lambda x: x, name="a") >> step(lambda x: -x, name="a"))\n'
        "except DuplicateName as error:  # or the group, DefinitionError, or all, WeftError\n"
        "    assert isinstance(error, DefinitionError) and isinstance(error, WeftError)\n    print(error)\n```"
    )
    intro = (
        "Everything that Weft raises on purpose is a `WeftError` of the module `weft.errors`. Catch the library, a group, or "
        "one case. Every message says what happened and what to do next; `…` stands for what it fills in."
    )
    return page("Errors", intro, example, *parts, "## Others\n\n" + table(("error", "cause", "remedy"), lone))


def pages() -> dict[str, str]:
    """Return every page that is written here, by its path in the documentation, as it should be."""
    return {
        "reference/options.md": options(),
        "reference/states.md": states(),
        "reference/errors.md": error_page(),
    }


if __name__ == "__main__":
    for name, text in {**pages(), **pictures()}.items():
        (DOCS / name).write_text(text, encoding="utf-8")
        print(f"wrote {name}")
