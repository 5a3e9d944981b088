"""
The controls of a run, besides its inputs: policies, dead letters, and changes of its workflow.

Each of these is an event, so a run that is restored from its log continues in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, cast

from weft.core import events as ev
from weft.core.deferred import local
from weft.core.fold.fold import record
from weft.core.fold.scope import Letter
from weft.core.functions.current import Addition
from weft.core.run.policies import PoliciesInForce
from weft.core.run.queries import Queries
from weft.core.run.texts import check_text_or_none
from weft.errors import NoSuchLetter
from weft.typing import PoliciesMode

if TYPE_CHECKING:
    from weft.core.workflow import Workflow


class Controls(Queries):
    """The methods that change how a run continues; all of them are recorded."""

    __slots__ = ("known_policies",)

    known_policies: PoliciesInForce | None
    """The policies in force, once they have been worked out; ask ``policies``."""

    @property
    def workflow(self) -> Workflow:
        """The definition in force now."""
        return cast("Workflow", self.memory.workflow)

    # -- policies --------------------------------------------------------------------------------

    def under(self, policies: Iterable[Any] | None = None, *, mode: PoliciesMode = "merge", clock: Any = None) -> Self:
        """
        Run with these *policies*, in front of the workflow's own or in their place, and with this *clock*.

        Raises:
            InvalidPolicy: a rule that makes no sense, or that a run in memory cannot keep.
        """
        if clock is not None:
            self.known_policies = local().policies_in_memory(self, clock)
        return self if policies is None else self.set_policies(policies, mode=mode)

    def set_policies(self, policies: Iterable[Any], *, mode: PoliciesMode = "replace") -> Self:
        """
        Put *policies* in force from the next decision on: the next attempt, the next retry, the next failure.

        Args:
            policies: rules, pairs of a matcher and a policy.
            mode: ``"replace"`` puts them in place of all others; ``"merge"`` in front of those in force.

        Raises:
            InvalidPolicy: a rule that makes no sense, or that a run in memory cannot keep.
        """
        known = self._policies_here()
        known.change(policies, mode)
        self.known_policies = known
        return self

    def preview(self, policies: Iterable[Any], *, mode: PoliciesMode = "replace") -> list[Any]:
        """Return what ``set_policies`` would change for work that is pending, without changing anything."""
        rules = self.memory.rules
        now = self.workflow.policies if rules is None else rules
        return cast("list[Any]", local().preview(self, local().combine(now, policies, mode)))

    def explain_policy(self, which: object) -> Any:
        """Return which rule holds for *which* in this run now, and what it says; as data, and as text by ``str``."""
        return local().choose(self.workflow, which, self.memory.rules)

    @property
    def policies(self) -> PoliciesInForce | None:
        """The policies in force for this run; None if neither the run nor its workflow has any."""
        if self.known_policies is None and (self.memory.rules is not None or self.memory.workflow.policies):
            self.known_policies = local().policies_in_memory(self)
        return self.known_policies

    def _policies_here(self) -> PoliciesInForce:
        """Return the policies of this run, or empty ones of a run in memory."""
        return self.policies or cast("PoliciesInForce", local().policies_in_memory(self))

    # -- children --------------------------------------------------------------------------------

    @property
    def children(self) -> dict[str, str]:
        """The runs that steps of this one have started (``current().start_child``), and which component did."""
        return {child: event.component for child, event in (self.memory.children or {}).items()}

    # -- dead letters ----------------------------------------------------------------------------

    @property
    def dead_letters(self) -> list[ev.RunnableFailed]:
        """The failures that are kept to be tried again (``on_failure="dead_letter"``), in order."""
        return self.memory.dead_letters

    def discard(self, which: object = None, *, until: int | None = None, by: str | None = None) -> Self:
        """
        Discard dead letters: components that waited for them continue as if they had been skipped.

        Args:
            which: one of ``dead_letters``, or the name of a component for all of its letters; all letters if not given.
            until: the position of an event: letters after it are left alone.
            by: the name of the caller.

        Raises:
            NoSuchLetter: there is no such dead letter.
        """
        check_text_or_none("by", by)
        memory, letters = self.memory, self._letters(which, until)
        if not letters and (which is not None or memory.failures):
            raise self._no_letter(which)
        for letter in letters:
            event = letter.event
            reason = f"discarded after {event.error.type}: {event.error.message}"
            seq = len(memory.log) + 1
            record(memory, ev.RunnableSkipped(seq, event.component, event.inputs, reason, event.attempts, by))
        return self

    def _letters(self, which: object, until: int | None = None) -> list[Letter]:
        """Return the dead letters that *which* stands for: one, a component, or None for all; *until* an event."""
        letters = [
            letter for letter in (self.memory.letters or {}).values() if until is None or letter.event.seq <= until
        ]
        if isinstance(which, ev.RunnableFailed):
            return [letter for letter in letters if letter.event == which]
        if which is None:
            return letters
        name = which if isinstance(which, str) else self.workflow.name_of(which)
        return [letter for letter in letters if letter.event.component == name]

    def _no_letter(self, which: object) -> NoSuchLetter:
        """Return the error for *which*, of which there is no dead letter."""
        memory, names = self.memory, set(self.workflow.components)
        if which is not None:
            component = which.component if isinstance(which, ev.RunnableFailed) else which
            names = {component if isinstance(component, str) else self.workflow.name_of(component)}
        halted = [name for name, _ in memory.failures or () if name in names and memory.undo is None]
        return NoSuchLetter(which, [letter.event.component for letter in (memory.letters or {}).values()], halted)

    # -- changing a live run ---------------------------------------------------------------------

    def add(self, fragment: object, *, to: object = None, by: str | None = None) -> Self:
        """
        Add to the workflow of this run alone, as an event; facts that come from now on reach the new part.

        Args:
            fragment: what is added, as in ``Workflow.add``.
            to: what feeds it.
            by: the name of the caller.
        """
        self.extend([Addition(fragment, to)], by)
        return self

    def extend(self, additions: Iterable[Addition], by: str | None = None) -> None:
        """
        Add the fragments that a component has requested: all of them or, if one is refused, none.

        Raises:
            DefinitionError: the workflow would not work, or not under the policies in force.
        """
        check_text_or_none("by", by)
        memory = self.memory
        changed = memory.workflow
        for addition in additions:
            changed = changed.add(addition.fragment, to=addition.to)
        new = tuple(name for name in changed.components if name not in memory.workflow.components)
        if self.policies is not None or changed.policies:
            self._policies_here().table(changed, changed.compiled)
        record(memory, ev.ComponentAdded(len(memory.log) + 1, new, changed, by))

    def remove(self, which: object, *, by: str | None = None) -> Self:
        """Remove a component from the workflow of this run, as an event; inputs in flight finish as they began."""
        check_text_or_none("by", by)
        memory = self.memory
        if which in memory.workflow:
            name = memory.workflow.name_of(which)
            record(memory, ev.ComponentRemoved(len(memory.log) + 1, name, memory.workflow.remove(name), by))
        return self
