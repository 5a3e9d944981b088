"""
Applies events to the memory of a run.

``fold`` applies a log; ``complete`` and ``record`` apply an event that this process has just created, whose position
is right by construction.  There is one function per event class, and a test fails if one is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, cast

from weft.core import events as ev
from weft.core.components.state_change import Ignored, StateChange
from weft.core.fold import batches, error_routes, gates, loops, reads, settling, undoing
from weft.core.fold.external import completion_awaited, failure_received, runnable_cancelled, token_issued
from weft.core.fold.live_changes import look_up, replan
from weft.core.fold.memory import Memory
from weft.core.fold.memory_data import STORY
from weft.core.fold.refold import Handlers, Refold, Revision, become, positions, rebuild
from weft.core.fold.scope import ALONE, NOTHING, Activation, Attempts, Opening, Scope, Waiting
from weft.core.lineage.history import Edited, PagedLog
from weft.core.lineage.lineage import Element, Lineage, emission
from weft.core.plan.node import Kind
from weft.errors import DefinitionError, InvalidEvent, shown

# Looking a member of an enum up costs three times a global.
_WORK, _TEST, _FAN, _STATE = Kind.WORK, Kind.TEST, Kind.FAN, Kind.STATE


def fold(memory: Memory, events: Iterable[ev.AnyEvent]) -> None:
    """
    Apply *events* in order; another call can continue where this one has ended.

    Raises:
        InvalidEvent: an event that cannot have happened here; neither it nor what follows is in the log.  If the
            log was damaged it may be half applied: do not use the memory any more.
    """
    log = memory.log
    seq, event = len(log), None
    try:
        for event in events:
            seq += 1
            handler = _FOLD.get(type(event))
            if handler is None or event.seq != seq or (seq == 1 and handler is not _defined):
                _refuse(memory, seq, event)
            if memory.page is not None and isinstance(event, ev.ReactionOccurred):
                event = _shared(memory, event)  # noqa: PLW2901
            handler(memory, event)
            log.append(event)
    except Exception as error:
        # An event that was taken is in the log: then it was *events* that raised, which is not ours to explain.  The
        # functions below trust their events, as what they get while a run is live is made by this process.
        if len(log) == seq or isinstance(error, MemoryError | DefinitionError):
            raise
        raise _impossible(memory, seq, event, error) from error


def _refuse(memory: Memory, seq: int, event: Any) -> NoReturn:
    """Raise for an *event* that is out of place at *seq*, whatever it says."""
    if type(event) not in _FOLD:
        why = f"{shown(event)} is not an event that this version of Weft knows"
    elif isinstance(event, ev.LogTruncated):
        why = f"the events up to {event.seq} were removed from this log, so it cannot be folded; get() returns the run"
    elif event.seq != seq:
        why = f"expected event {seq}, got {shown(event)}"
    else:
        why = f"a log begins with WorkflowDefined, not with {shown(event)}"
    raise InvalidEvent(why, memory.log[-STORY:])


def _impossible(memory: Memory, seq: int, event: object, error: Exception) -> InvalidEvent:
    """Return the error for an *event* that cannot have happened at *seq*, as *error* shows."""
    run_id, kind = getattr(memory, "run_id", None), type(event).__name__
    if isinstance(error, InvalidEvent):
        return error.at(seq, kind, run_id)
    why = f"{shown(event)} does not fit what was there ({shown(error)})"
    return InvalidEvent(why, memory.log[-STORY:]).at(seq, kind, run_id)


def _shared(memory: Memory, event: ev.ReactionOccurred) -> ev.ReactionOccurred:
    """Return *event* with the name and inputs of its activation instead of equal copies, to save memory."""
    activation = memory.at((event.component, event.inputs))
    if activation is None:
        return event
    return ev.ReactionOccurred(event.seq, *activation.key, event.value, event.attempt, event.duration_ns, event.timing)


def record(memory: Memory, event: ev.AnyEvent) -> None:
    """Apply one *event* that this process has just made, whose position is right by construction."""
    _FOLD[type(event)](memory, event)
    memory.log.append(event)


def complete(
    memory: Memory,
    activation: Activation,
    value: Any,
    attempt: int,
    duration_ns: int,
    timing: ev.Timing | None = None,
) -> None:
    """Record that *activation*, which is ready, has produced *value*."""
    key = activation.key
    if memory.ready.pop(key, None) is None:
        return  # it was removed from the run while it was in flight
    if memory.unopened is not None and not memory.ready:
        memory.open_more()
    if memory.dispatched:
        memory.dispatched.pop(key, None)
        if memory.external:
            memory.external.drop(key)
    if memory.attempts:
        memory.attempts.pop(key, None)
    if memory.retried:
        memory.retried.pop(key, None)
    log = memory.log
    seq = len(log) + 1
    if activation.node.is_test:
        holds = bool(value)
        answered(memory, activation, holds)
        log.append(ev.ConditionEvaluated(seq, key[0], key[1], holds, attempt, duration_ns, timing))
    elif activation.node.is_fan:
        fan = ev.FannedOut(seq, key[0], key[1], value, attempt, duration_ns, timing)
        taken_apart(memory, activation, fan)
        log.append(fan)
    elif activation.node.changes_state:
        if isinstance(value, Ignored):
            memory.release(activation)
            log.append(ev.ConditionEvaluated(seq, key[0], key[1], False, attempt, duration_ns, timing))
        else:
            said: StateChange = value
            change = ev.StateChanged(
                seq,
                key[0],
                key[1],
                said.state,
                said.emitted,
                said.fired,
                said.done,
                said.key,
                attempt,
                duration_ns,
                timing,
            )
            change_state(memory, activation, change)
            log.append(change)
    else:
        node, event = activation.node, ev.ReactionOccurred(seq, key[0], key[1], value, attempt, duration_ns, timing)
        if not node.only_delivers:
            made(memory, activation, event)
        elif node.plain_targets:  # what made() does, without a call for each of many
            inputs = ALONE[seq] if seq < len(ALONE) else (seq,)
            memory.deliver(node, (event,), inputs, activation.scope, activation.order)
        log.append(event)


def react(
    memory: Memory,
    activation: Activation,
    value: Any,
    attempt: int,
    duration_ns: int,
    timing: ev.Timing | None = None,
) -> None:
    """
    Record what :func:`complete` records, faster, in a simpler case.

    *activation* is ready, has no policy and no earlier attempt, and its node only delivers what it makes.
    """
    key, ready, log = activation.key, memory.ready, memory.log
    del ready[key]
    if memory.unopened is not None and not ready:
        memory.open_more()
    seq = len(log) + 1
    event = ev.ReactionOccurred(seq, key[0], key[1], value, attempt, duration_ns, timing)
    targets = activation.node.plain_targets
    if targets:  # what Delivery.deliver does, without a call for each step
        facts, scope, order = (event,), activation.scope, activation.order
        address = ALONE[seq] if seq < len(ALONE) else (seq,)
        for target in targets:
            place = (target.name, address)
            ready[place] = following = Activation(target, place, facts, scope, order)
            memory.newly_ready.append(following)
            if target.settling is not None:
                scope.count(target.name, 1)
    log.append(event)


# -- one function per event ----------------------------------------------------------------------


def _defined(memory: Memory, event: ev.WorkflowDefined) -> None:
    if memory.log:
        raise InvalidEvent("a run is defined once", memory.log[-STORY:])
    memory.run_id = event.run
    memory.workflow = event.workflow
    memory.plan = event.workflow.compiled
    memory.lineage.follow(memory.plan)
    memory.needs_context = memory.plan.required_context


def _changed(memory: Memory, event: ev.ComponentAdded | ev.ComponentRemoved | ev.CodeChanged) -> None:
    if not isinstance(event, ev.CodeChanged):
        memory.lineage.check_changeable(memory.run_id)  # a snapshot from before it is not used
    memory.open_all()
    old, plan = memory.plan, event.workflow.compiled
    memory.workflow, memory.plan = event.workflow, plan
    memory.lineage.follow(plan)
    before = memory.needs_context if memory.ready or memory.waiting else ()
    needed = (*before, *plan.required_context)
    memory.needs_context = tuple(dict.fromkeys(needed))
    look_up(memory, old)
    if not isinstance(event, ev.ComponentRemoved) and plan is not old:
        replan(memory, old)


def _input(memory: Memory, event: ev.InputReceived) -> None:
    if memory.cancelled is not None or memory.is_ending:
        why = "was cancelled" if memory.is_ending is False else "has had its last input"
        raise InvalidEvent(f"a run that {why} accepts no input", memory.log[-STORY:])
    if event.ordinal != memory.received + 1:
        raise InvalidEvent(f"expected input {memory.received + 1}, got input {event.ordinal}", memory.log[-STORY:])
    memory.received = event.ordinal
    if event.last:
        memory.is_ending = True
    if event.key is not None:
        if memory.keys is None:
            memory.keys = {}
        memory.keys[event.key] = event.ordinal
    plan = memory.plan
    scope = Scope(event.seq, event.ordinal, plan, plan.openings.get(None, NOTHING))
    if event.deadline is not None:
        memory.has_deadlines, scope.deadline = True, event.deadline
    if event.carrier is not None:
        scope.carrier = event.carrier
    memory.begin(event, scope)


def _reaction(memory: Memory, event: ev.ReactionOccurred) -> None:
    made(memory, memory.take(event, _WORK), event)


def made(memory: Memory, activation: Activation, event: ev.Production) -> None:
    """*activation* has produced the value of *event*."""
    node, scope = activation.node, activation.scope
    if node.only_delivers:
        if node.plain_targets:
            memory.deliver(node, (event,), (event.seq,), scope, activation.order)
        return
    if activation.gathers:
        if memory.lineage.gathered is None:
            memory.lineage.gathered = {}
        memory.lineage.gathered[event.seq] = activation.facts
    if activation.pins:
        _note_reads(memory, activation, event.seq)
    if node.kept is not None:
        if node.kept.is_placed:
            reads.remember(memory, node.name, node.kept, event, scope, activation.order)
        memory.produced.setdefault(node.name, []).append(event)
    if node.turn is not None:
        if node.taken is not None:
            memory.deliver(node.taken, (event,), (event.seq,), scope, (*activation.order, activation.turn))
        loops.go_on(memory, activation, event)
        return
    if node.collect_route is not None:
        batches.gather(node.collect_route, event, scope, activation.order)
    elif node.is_relay:
        if memory.undo is not None:
            undoing.went_back(memory, activation, event)
            return
        if node.taken is not None:
            memory.deliver(node.taken, (event,), (event.seq,), scope, activation.order)
        error_routes.carry(memory, node.routes, event, activation)
        return
    elif node.routes:
        memory.deliver(node, (event,), (event.seq,), scope, activation.order)
    if node.stateful:
        memory.release(activation)
    elif node.settling is not None:
        settling.close(memory, node, scope)


def _signal_received(memory: Memory, event: ev.SignalReceived) -> None:
    if memory.cancelled is not None:
        raise InvalidEvent("a run that was cancelled accepts no signal", memory.log[-STORY:])
    memory.note_signal_key(event)
    if memory.signals is None:
        memory.signals = {}
    memory.signals.setdefault(event.name, []).append(event)


def _signal_refused(memory: Memory, event: ev.SignalRefused) -> None:
    memory.note_signal_key(event)


def _timer_started(memory: Memory, event: ev.TimerStarted) -> None:
    key = (event.component, event.inputs)
    waiting = (memory.waiting or {}).get(key)
    if memory.waiting is None or waiting is None or waiting.due is not None:
        raise memory.story(event)
    memory.waiting[key] = Waiting(waiting.activation, event.due, event.is_relative)


def _signal_taken(memory: Memory, event: ev.SignalTaken) -> None:
    signal = _signal_of(memory, event)
    if signal is None or not memory.take_signal(signal, event.signal):
        why = "it does not wait for a signal" if signal is None else f"there is no signal at {event.signal} to take"
        raise InvalidEvent(f"{event.component!r} at {event.inputs}: {why}, for {shown(event)}", memory.log[-STORY:])
    _end_wait(memory, event)


def _timer_fired(memory: Memory, event: ev.TimerFired) -> None:
    waiting = (memory.waiting or {}).get((event.component, event.inputs))
    if waiting is None or waiting.due is None or _signal_of(memory, event) is not None:
        raise memory.story(event)
    _end_wait(memory, event)


def _signal_of(memory: Memory, event: ev.Activated) -> str | None:
    """Return the signal that the activation of *event* waits for; None if it sleeps, or does not wait."""
    waiting = (memory.waiting or {}).get((event.component, event.inputs))
    wait = None if waiting is None else waiting.activation.node.wait
    return None if wait is None else wait.signal


def _end_wait(memory: Memory, event: ev.Production) -> None:
    activation = memory.take_waiting((event.component, event.inputs))
    assert activation is not None  # noqa: S101
    made(memory, activation, event)


def _completion_received(memory: Memory, event: ev.CompletionReceived) -> None:
    key = (event.component, event.inputs)
    if memory.external is None or memory.external.get(key) is None:
        raise memory.story(event)
    made(memory, memory.take_waiting(key) or memory.take(event, _WORK), event)


def _note_reads(memory: Memory, activation: Activation, seq: int) -> None:
    if memory.lineage.read is None:
        memory.lineage.read = {}
    read = tuple(pin.address for pin in activation.pins if not isinstance(pin, int | None))
    memory.lineage.read[seq] = read


def _state_changed(memory: Memory, event: ev.StateChanged) -> None:
    pending = memory.at((event.component, event.inputs))
    state = None if pending is None else pending.node.state
    unknown = [part for part in event.fired if state is not None and part not in state.fires]
    if unknown:
        raise InvalidEvent(f"{event.component!r} has no part {unknown[0]!r} for {shown(event)}", memory.log[-STORY:])
    activation = memory.take(event, _STATE)
    if event.key is not None and not (state is not None and state.by_key):
        raise InvalidEvent(f"{event.component!r} keeps one state, and none for {shown(event.key)}", memory.log[-STORY:])
    change_state(memory, activation, event)


def change_state(memory: Memory, activation: Activation, event: ev.StateChanged) -> None:
    """A stateful component has decided: pass on the facts that it emitted, and make the parts that it fired ready."""
    node, scope, order = activation.node, activation.scope, activation.order
    state = node.state
    assert state is not None  # noqa: S101
    assert state.emits is not None  # noqa: S101
    emits = state.emits
    if activation.pins:
        _note_reads(memory, activation, event.seq)
    if node.kept is not None and node.kept.is_placed:
        reads.remember(memory, node.name, node.kept, event, scope, order)
    memory.keep_state(node, event)
    for index in range(len(event.emitted)):
        fact, place = emission(event, index), (*order, index)
        if emits.kept is not None:
            reads.remember(memory, emits.name, emits.kept, fact, scope, place)
            memory.produced.setdefault(emits.name, []).append(fact)
        memory.deliver(emits, (fact,), (fact.address,), scope, place)
    for part in event.fired:
        facts, inputs = (event, *activation.facts), (event.seq, *event.inputs)
        memory.accept(state.fires[part], facts, inputs, scope, order)
    memory.release(activation)


def _fanned_out(memory: Memory, event: ev.FannedOut) -> None:
    if not isinstance(event.value, list | tuple | range):
        raise InvalidEvent(f"{shown(event)} takes apart what is not a collection", memory.log[-STORY:])
    taken_apart(memory, memory.take(event, _FAN), event)


def taken_apart(memory: Memory, activation: Activation, event: ev.FannedOut) -> None:
    """Open a scope for every element of the collection, in its order."""
    node, scope, order = activation.node, activation.scope, activation.order
    seq, name, origin = event.seq, node.name, event.inputs[0]
    assert node.opens is not None  # noqa: S101
    for collect, port in node.opens.collects:
        batches.batch_of(collect, scope).fans.append(((port, order), event))
    for exit_ in node.opens.exits:
        scope.count(exit_.name, len(event.value))
    plan = scope.plan
    opening = plan.openings.get(name, NOTHING)
    entry = plan.entries[name]
    if entry.plain_targets and memory.page is not None and len(event.value) > memory.page:
        memory.take_in_pages(Opening(event, entry.plain_targets, scope, order))
        memory.release(activation)
        return
    ready, newly_ready = memory.ready, memory.newly_ready
    for index, value in enumerate(event.value):
        address = (seq, index)
        element = Element(address, value, name, origin, index)
        inner = Scope(address, index, plan, opening, scope, name, order)
        if entry.plain_targets:  # what Delivery.begin does, without a call for each of ten thousand elements
            inputs, facts = (address,), (element,)
            for target in entry.plain_targets:
                key = (target.name, inputs)
                ready[key] = following = Activation(target, key, facts, inner)
                newly_ready.append(following)
        else:
            memory.begin(element, inner)
    memory.release(activation)


def _evaluated(memory: Memory, event: ev.ConditionEvaluated) -> None:
    pending = memory.at((event.component, event.inputs))
    if pending is not None and pending.node.kind is _STATE and not event.holds:
        memory.release(memory.take(event))
    else:
        answered(memory, memory.take(event, _TEST), event.holds)


def answered(memory: Memory, activation: Activation, holds: bool) -> None:
    """A condition was evaluated on the facts of *activation*: *holds* is the result."""
    node, scope = activation.node, activation.scope
    if node.loop_test is not None:
        loops.decide_turn(memory, activation, node.loop_test, holds=holds)
        return
    if node.shares_answers:
        if scope.outcomes is None:
            scope.outcomes = {}
        scope.outcomes[activation.key] = holds
    if holds and activation.flows:
        memory.deliver(node, activation.facts, activation.key[1], scope, activation.order)
    if activation.gates is not None:
        for state in activation.gates:
            state.known[node.name] = holds
            gates.decide(memory, state)
    if node.settling is not None:
        memory.release(activation)


def _dispatched(memory: Memory, event: ev.RunnableDispatched) -> None:
    key = (event.component, event.inputs)
    if memory.at(key) is None:
        raise memory.story(event)
    if memory.dispatched is None:
        memory.dispatched = {}
    memory.dispatched[key] = event.attempt


def _delayed(memory: Memory, event: ev.RunnableDelayed) -> None:
    key = (event.component, event.inputs)
    if memory.at(key) is None:
        raise memory.story(event)
    if memory.attempts is None:
        memory.attempts = {}
    memory.attempts[key] = Attempts(0, 0, 0.0, event.at)


def _failed(memory: Memory, event: ev.RunnableFailed) -> None:
    activation = memory.take_waiting((event.component, event.inputs)) or memory.take(event)
    if memory.undo is not None:
        undoing.failed(memory, activation, event)
        return
    routes = error_routes.rescuers(activation.node, event.error) if activation.node.error_routes else []
    if routes:
        failure = memory.lineage.failure(event)
        if activation.node.is_relay:
            error_routes.carry(memory, routes, failure, activation)
        else:
            error_routes.rescue(memory, routes, failure, activation.scope, activation.order)
            memory.end(activation, "handled")
        return
    memory.fail(event)
    if event.on_failure == "dead_letter" or activation.node.undoes:
        memory.keep_dead_letter(activation, event)
    else:
        memory.end(activation, "failed")


def _attempt_failed(memory: Memory, event: ev.AttemptFailed) -> None:
    key = (event.component, event.inputs)
    if memory.at(key) is None:
        raise memory.story(event)
    if memory.attempts is None:
        memory.attempts = {}
    before = memory.attempts.get(key)
    memory.attempts[key] = Attempts(1 + (before.failed if before else 0), event.attempt, event.retry_at, event.since)
    if memory.dispatched:
        memory.dispatched.pop(key, None)
    if memory.external:
        memory.external.drop(key)


def _retried(memory: Memory, event: ev.RunnableRetried) -> None:
    activation = memory.take_dead_letter(event)
    if activation is None:
        raise memory.story(event)
    if event.values is not None:
        if len(event.values) != len(activation.facts) or len(event.inputs) != len(activation.facts):
            raise InvalidEvent(f"{shown(event)} has another number of values than were taken", memory.log[-STORY:])
        activation.facts = tuple(memory.lineage.replaced(event, place) for place in range(len(event.values)))
        activation.key = (event.component, tuple(fact.address for fact in activation.facts))
    if event.policy is not None:
        memory.retried = {**(memory.retried or {}), activation.key: event.policy}
    elif memory.retried:
        memory.retried.pop(activation.key, None)
    memory.admit(activation)


def _ruled(memory: Memory, event: ev.PolicyChanged) -> None:
    memory.rules = event.rules


def _child_started(memory: Memory, event: ev.ChildStarted) -> None:
    if memory.at((event.component, event.inputs)) is None:
        raise memory.story(event)
    if memory.children is None:
        memory.children = {}
    memory.children[event.child] = event


def _notified(memory: Memory, event: ev.Notified) -> None:
    memory.notified = event.seq


def _taken_over(_: Memory, __: ev.RunTakenOver) -> None:
    """Change nothing: what follows from it is decided when the run is taken over again."""


def _finished(memory: Memory, _: ev.RunFinished) -> None:
    memory.is_ending = True


def _continued(memory: Memory, event: ev.ContinuedAsNew) -> None:
    if memory.ready or memory.letters:
        raise InvalidEvent("a run is continued as a new one when nothing is in flight", memory.log[-STORY:])
    memory.successor, memory.is_ending = event.run, True
    # What waited does so in the new run.
    memory.waiting = memory.newly_waiting = memory.signals = memory.blocked = memory.state_queues = None


def _continues(memory: Memory, event: ev.ContinuedFrom) -> None:
    if len(memory.log) != 1:
        why = "the event that names the run it continues comes right after the definition"
        raise InvalidEvent(why, memory.log[-STORY:])
    if event.keys:
        memory.keys = dict.fromkeys(event.keys, 0)
    if event.signal_keys:
        memory.signal_keys = dict.fromkeys(event.signal_keys, 0)


def _truncated(memory: Memory, event: ev.LogTruncated) -> None:
    raise InvalidEvent(
        f"the events up to {event.seq} were removed from this log, so it cannot be folded; get() returns the run",
        memory.log[-STORY:],
    )


def _carried(memory: Memory, event: ev.StateCarried) -> None:
    node = memory.plan.nodes.get(event.component)
    if node is None:
        raise InvalidEvent(f"{shown(event)} is not a state that a run can begin with", memory.log[-STORY:])
    memory.carry(node, event)


def _skipped(memory: Memory, event: ev.RunnableSkipped) -> None:
    letter = memory.take_dead_letter(event)
    if memory.skipped is None:
        memory.skipped = {}
    memory.skipped[event.component] = None
    activation = letter or memory.take_waiting((event.component, event.inputs)) or memory.take(event)
    if memory.undo is not None:
        undoing.went_back(memory, activation, error_routes.nothing_of(memory, activation))
    elif activation.node.is_relay:
        error_routes.carry_nothing(memory, activation)
    elif letter is not None:
        memory.discard_dead_letter(letter)
    else:
        memory.end(activation, "skipped")


def _imported(memory: Memory, event: ev.RunImported) -> None:
    memory.redacted = memory.redacted or event.redacted


def _revised(memory: Memory, event: Revision) -> None:
    if not isinstance(event, ev.RunForked):
        memory.lineage.check_changeable(memory.run_id)
    make_whole(memory)
    last = len(memory.log)
    named = [*positions(event.void[:1]), *positions(event.void[-1:])]
    if named and not 1 < named[0] <= named[-1] <= last:
        raise InvalidEvent(f"{shown(event)} makes events void that are not in the log", memory.log[-STORY:])
    rebuild(memory, event, Handlers(_FOLD, _end_wait))


# A new event without a line here fails test_every_event_can_be_folded.
_FOLD: dict[type[Any], Callable[[Memory, Any], None]] = {
    ev.WorkflowDefined: _defined,
    ev.ComponentAdded: _changed,
    ev.ComponentRemoved: _changed,
    ev.InputReceived: _input,
    ev.SignalReceived: _signal_received,
    ev.SignalRefused: _signal_refused,
    ev.ReactionOccurred: _reaction,
    ev.FannedOut: _fanned_out,
    ev.StateChanged: _state_changed,
    ev.SignalTaken: _signal_taken,
    ev.TimerStarted: _timer_started,
    ev.TimerFired: _timer_fired,
    ev.TokenIssued: token_issued,
    ev.CompletionAwaited: completion_awaited,
    ev.CompletionReceived: _completion_received,
    ev.FailureReceived: failure_received,
    ev.RunnableCancelled: runnable_cancelled,
    ev.ConditionEvaluated: _evaluated,
    ev.RunnableDispatched: _dispatched,
    ev.RunnableDelayed: _delayed,
    ev.AttemptFailed: _attempt_failed,
    ev.RunnableFailed: _failed,
    ev.RunnableSkipped: _skipped,
    ev.RunnableRetried: _retried,
    ev.PolicyChanged: _ruled,
    ev.ChildStarted: _child_started,
    ev.Notified: _notified,
    ev.RunTakenOver: _taken_over,
    ev.RunFinished: _finished,
    ev.ContinuedAsNew: _continued,
    ev.ContinuedFrom: _continues,
    ev.LogTruncated: _truncated,
    ev.StateCarried: _carried,
    ev.RunCancelled: undoing.cancelled,
    ev.RunRetried: _revised,
    ev.RunForked: _revised,
    ev.RunUpgraded: _revised,
    ev.CodeChanged: _changed,
    ev.RunImported: _imported,
}


def refolding(revisions: Sequence[Revision], known: Lineage) -> Refold:
    """Return what folds a log again under *revisions*; *known* is its lineage so far."""
    return Refold(Handlers(_FOLD, _end_wait), revisions, known, None)


def make_whole(memory: Memory) -> None:
    """
    Let *memory*, which was restored from a snapshot, be as if it had folded its whole log.

    What is in flight is not disturbed.  A revision needs that: it folds the log again.

    Raises:
        HistoryNotLoaded: the history is not in memory, and cannot be loaded from here.
    """
    log = cast("Sequence[ev.AnyEvent]", memory.log)
    if not isinstance(log, PagedLog):
        return
    log.absorb()
    new = Memory()
    new.page = memory.page
    fold(new, log)
    edited = new.lineage.log
    become(memory, new, edited.edits if isinstance(edited, Edited) else {})
