"""
Redaction: replaces values of a log by their kind and a hash, which is the same for equal values.

The hash is made with a key that is not kept, so a value cannot be found by trying: two equal values in one file have
the same hash, and nothing else follows from it.

    >>> from weft import Workflow, step
    >>> run = Workflow("w", step(lambda x: x * 2, name="double")).run(21)
    >>> log = Redaction(["double"], b"key").events(run.log())
    >>> [type(event.value).__name__ for event in log[1:]]
    ['int', 'Redacted']
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from weft.core import events as ev
from weft.core.compose.inlet import INPUT_NAME
from weft.core.functions.identity import canonical
from weft.core.plan.node import FunctionNode
from weft.errors import InvalidArgument, UnidentifiableValue
from weft.log.class_registry import register

Redact = Callable[[str, Any], Any] | Collection[str] | bool
"""A function of a component's name and a value that returns what to write; names of components; or True for all."""


class Redacted(msgspec.Struct, frozen=True):
    """Stands for a value that was not exported."""

    type: str
    """The name of its class."""
    hash: str = ""
    """The same for equal values of one file; empty if the value has no canonical form."""


register(Redacted, "weft.Redacted")


class Redaction:
    """Replaces values as *redact* says; *key* makes the hashes."""

    def __init__(self, redact: Redact, key: bytes, *, text: str = "(redacted)") -> None:
        """
        Args:
            text: stands for a text that may quote a value.

        Raises:
            InvalidArgument: *redact* is neither a function, nor names, nor True.
        """
        given: Any = redact
        if isinstance(given, str) or not (callable(given) or isinstance(given, bool | Collection)):
            raise InvalidArgument(f"redact={redact!r:.80}: use a list of names, a function of name and value, or True")
        self._redact, self._key, self._text = redact, key, text
        self._waits: dict[str, set[str]] = {}
        """By signal: the components that wait for it."""

    @property
    def named(self) -> tuple[str, ...]:
        """The values that it redacts, in words."""
        if callable(self._redact):
            return ("what a function chose",)
        return ("everything",) if isinstance(self._redact, bool) else tuple(sorted(self._redact))

    def events(self, log: Sequence[ev.AnyEvent]) -> list[ev.AnyEvent]:
        """
        Return *log* with values replaced.

        Raises:
            InvalidArgument: a name is neither a component of a workflow that the run has followed, nor a signal.
        """
        self._waits = _waits_by_signal(log)
        if not callable(self._redact) and not isinstance(self._redact, bool):
            self._check_names(self._redact, {INPUT_NAME, *_components(log), *self._waits})
        return [self._event(event, log) for event in log]

    def _check_names(self, given: Collection[str], known: Collection[str]) -> None:
        unknown = [each for each in given if not any(name == each or name.startswith(f"{each}.") for name in known)]
        if unknown:
            folded = {name.casefold(): name for name in known}
            near = get_close_matches(str(unknown[0]).casefold(), folded, n=1) or sorted(folded)[:10]
            raise InvalidArgument(
                f"redact={unknown!r:.200}: the run has no such component or signal, and nothing would be hidden; "
                f"did you mean {', '.join(repr(folded[name]) for name in near)}?"
            )

    def _event(self, event: Any, log: Sequence[ev.AnyEvent]) -> Any:
        name = getattr(event, "component", INPUT_NAME)
        match event:
            case ev.InputReceived() | ev.ReactionOccurred() | ev.SignalTaken() | ev.CompletionReceived():
                return replace(event, value=self._value(name, event.value))
            case ev.TimerFired():
                return replace(event, value=self._value(self._hidden_source(event, log), event.value))
            case ev.SignalReceived():
                return replace(event, value=self._value(self._hidden_wait(event.name), event.value))
            case ev.TokenIssued():  # whatever is redacted: with a token a reader could complete the step
                return replace(event, token=self._hash(event.token))
            case ev.SignalRefused() if self._hides(self._hidden_wait(event.name)):
                return replace(event, reason=self._text)
            case ev.RunnableSkipped() | ev.RunnableCancelled() if event.reason and self._hides(name):
                return replace(event, reason=self._text)
            case ev.FannedOut():
                return replace(event, value=[self._value(name, each) for each in event.value])
            case ev.StateChanged():
                emitted = tuple(self._value(name, each) for each in event.emitted)
                key = None if event.key is None else self._value(name, event.key)
                return replace(event, state=self._value(name, event.state), emitted=emitted, key=key)
            case ev.StateCarried():
                key = None if event.key is None else self._value(name, event.key)
                return replace(event, value=self._value(name, event.value), key=key)
            case ev.RunnableRetried() if event.values is not None:
                return replace(event, values=tuple(self._value(name, each) for each in event.values))
            case ev.RunnableFailed() | ev.AttemptFailed() | ev.FailureReceived() if self._hides(name):
                return replace(event, error=replace(event.error, message=self._text, traceback=""))
            case ev.RunForked():
                values = cast("tuple[Any, ...]", event.values)
                edited = zip(event.edited, values, strict=True)
                return replace(event, values=tuple(self._edit(log[seq - 1], value) for seq, value in edited))
            case _:
                return event

    def _hidden_source(self, fired: ev.TimerFired, log: Sequence[ev.AnyEvent]) -> str:
        """Return the component whose value *fired* passes on, if that is hidden; else the one that has slept."""
        event: Any = fired
        while isinstance(event, ev.TimerFired) and not self._hides(event.component):
            at = event.inputs[0]
            seq = at if isinstance(at, int) else at[0]
            event = log[seq - 1] if seq > 0 else None
        name = INPUT_NAME if isinstance(event, ev.InputReceived) else getattr(event, "component", fired.component)
        return name if self._hides(name) else fired.component

    def _hidden_wait(self, signal: str) -> str:
        """Return a component that waits for *signal* and is hidden, if there is one; else the name of the signal."""
        return next((name for name in sorted(self._waits.get(signal, ())) if self._hides(name)), signal)

    def _edit(self, event: Any, value: Any) -> Any:
        """Return *value*, with which a fork has edited *event*, in the same form."""
        name = getattr(event, "component", INPUT_NAME)
        if isinstance(event, ev.ConditionEvaluated):
            return value
        if isinstance(event, ev.StateChanged):
            state, emitted = value
            return self._value(name, state), tuple(self._value(name, each) for each in emitted)
        if isinstance(event, ev.FannedOut):
            return [self._value(name, each) for each in value]
        return self._value(name, value)

    def _value(self, name: str, value: Any) -> Any:
        if callable(self._redact):
            return self._redact(name, value)
        return Redacted(type(value).__name__, self._hash(value)) if self._hides(name) else value

    def _hides(self, name: str) -> bool:
        """Whether the values of the component *name*, or of the one that it is a part of, are replaced."""
        if callable(self._redact) or isinstance(self._redact, bool):
            return bool(self._redact)
        return name in self._redact or any(name.startswith(f"{each}.") for each in self._redact)

    def _hash(self, value: Any) -> str:
        try:
            return blake2b(canonical(value), key=self._key, digest_size=16).hexdigest()
        except UnidentifiableValue:
            return ""


def _components(log: Sequence[ev.AnyEvent]) -> set[str]:
    """Return the names of all components, and of parts of them, that the run has had."""
    found = set[str]()
    for event in log:
        name: Any = getattr(event, "component", None)
        if isinstance(name, str):
            found.add(name)
        workflow: Any = getattr(event, "workflow", None)
        if workflow is not None:
            found.update(workflow.components)
            found.update(node.name for node in workflow.compiled.nodes.values())
    return found


def _waits_by_signal(log: Sequence[ev.AnyEvent]) -> dict[str, set[str]]:
    """Return the components that wait for each signal, in any of the workflows that the run has followed."""
    found: dict[str, set[str]] = {}
    for event in log:
        workflow = getattr(event, "workflow", None)
        for node in () if workflow is None else workflow.compiled.nodes.values():
            wait = node.wait if isinstance(node, FunctionNode) else None
            if wait is not None and wait.signal is not None:
                found.setdefault(wait.signal, set()).add(node.name)
    return found
