"""
A workflow: an immutable, shareable definition.

    >>> from weft import Workflow, step
    >>> double = step(lambda x: x * 2, name="double")
    >>> add_one = step(lambda x: x + 1, name="add_one")
    >>> workflow = Workflow("arithmetic", double >> add_one)
    >>> workflow.run(5).results()
    {'add_one': 11}
    >>> sorted(workflow.edges())
    [('double', 'add_one')]

A workflow is a value: ``add``, ``remove``, ``replace`` and ``merge`` return another one.  All its runs share
it, and the plan that is compiled from it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar, cast, overload

from weft.core.components.loop_ends import TurnEnd, TurnStart
from weft.core.components.map import Map
from weft.core.compose.assembly import Assembly
from weft.core.compose.component import Component, check_name
from weft.core.compose.flow import INPUT, Flow, Fragment, NamedGraph, as_flow, connect
from weft.core.compose.inlet import INPUT_NAME
from weft.core.compose.nesting import nested
from weft.core.compose.part import Part, part_called
from weft.core.compose.symbol import tracing
from weft.core.context_defaults import ContextDefaults
from weft.core.deferred import local, log
from weft.core.diagrams.workflow import sketch
from weft.core.draw.drawable import Drawable
from weft.core.draw.picture import Picture
from weft.core.functions.annotations import ANY
from weft.core.functions.identity import canonical, digest
from weft.core.functions.references import MISSING
from weft.core.graph.context_keys import check_context, nested_defaults, over_defaults
from weft.core.graph.outputs import Output, kept, outputs_in, renamed
from weft.core.graph.port import declared_input, declared_outputs
from weft.core.graph.port_types import Ports, Validate
from weft.core.graph.wiring import Wiring
from weft.core.lint import Finding, check
from weft.core.plan.plan import Plan
from weft.core.run.run import Run
from weft.core.signature import Signature
from weft.errors import (
    CyclicWorkflow,
    DefinitionError,
    DuplicateName,
    InvalidArgument,
    TracingError,
    UnknownComponent,
    WrongArity,
)
from weft.typing import In_contra, Out_co, PoliciesMode

T = TypeVar("T")

Hook: TypeAlias = Callable[..., object]
"""A function that runs before or after a component."""


class Workflow(ContextDefaults, Signature, Drawable, NamedGraph[Out_co], Generic[In_contra, Out_co]):
    """Named components and the edges between them."""

    changed: tuple[str, ...] = ()
    """Of a definition that was written down: the components whose code is not what it was."""
    unresolved: tuple[str, ...] = ()
    """Of a definition that was written down: the components, and policy rules, whose function could not be found."""
    missing: Mapping[str, tuple[str, str]] = MappingProxyType({})
    """For each of these, what the function was called, with its module, and why it is not here."""

    @overload
    def __init__(
        self: Workflow[Any, T],
        name: str,
        fragment: Fragment[T],
        /,
        *,
        policies: Iterable[Any] = (),
        validate: Validate = "error",
        context: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Workflow[Any, Any],
        name: str,
        *fragments: object,
        policies: Iterable[Any] = (),
        validate: Validate = "error",
        context: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *fragments: object,
        policies: Iterable[Any] = (),
        validate: Validate = "error",
        context: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Make a workflow of *fragments*.

        Args:
            policies: its rules, as :meth:`with_policies` takes them; those of nested workflows come after them.
            validate: what to do where annotations say that two ends of an edge do not fit: ``"error"``, ``"warn"``
                or ``"off"``.
            context: defaults for context keys, as of :meth:`with_context`.
            inputs: the name of the input, with its type or a ``Port``; what takes it is checked against the type.
            outputs: what a run returns as its output, by name: a component or its name, or a ``Port`` that says which.

        Raises:
            DefinitionError: fragments, or ports, that do not make a workflow; the error says what is wrong.
        """
        check_name(name, "a workflow")
        assembly = Assembly()
        assembly.take(*(as_flow(fragment) for fragment in fragments))
        self.validate: Validate = validate
        self.declared = (declared_input(name, inputs), declared_outputs(outputs))
        for port in self.declared[1].values():
            of = port.of.label if isinstance(port.of, Part) else port.of
            part = part_called(of, assembly.components) if isinstance(of, str) else None
            if part is not None and of not in assembly.components:
                assembly.add_part(*part)
        self._set_up(name, assembly)
        if policies:
            own: tuple[Any, ...] = local().checked(policies)
            self.policies = _with_declared((*own, *assembly.rules), assembly)
        if self.declared[1]:
            self.returned = {port: Output(self.name_of(given.of)) for port, given in self.declared[1].items()}
            for port, output in self.returned.items():
                self.ports.check_output(port, output.component, self.declared[1][port].type)
        if context is not None:
            self.context = over_defaults(self.context, self._known(context))

    def _set_up(
        self, name: str, assembly: Assembly, base: Workflow | None = None, like: Workflow | None = None
    ) -> None:
        self.name = name
        rules = assembly.rules if like is None else (*like.policies, *assembly.rules)
        self.policies = _with_declared(rules, assembly)
        self.context: Mapping[str, Any] = over_defaults(assembly.context, {} if like is None else like.context)
        self._assembly = assembly
        assembly.add_parts_read(assembly.components if base is None else assembly.added)
        grown = None if base is None else (base.wiring, assembly.added)
        try:
            self.wiring = Wiring(name, assembly.components, assembly.inlets, assembly.homes, grown)
        except CyclicWorkflow as error:
            repeated = next((inside for inside in error.cycle if inside in assembly.repeated), None)
            raise CyclicWorkflow(name, error.cycle, repeated) from None
        if like is not None:
            self.declared = like.declared
        given = next((port.type for port in self.declared[0].values()), ANY)
        self.ports = Ports(self.wiring, self.validate, None if base is None else base.ports, given)

    def _with(self, assembly: Assembly, *, grown: bool = False) -> Workflow:
        twin = Workflow.__new__(Workflow)
        twin.validate = self.validate
        twin._set_up(self.name, assembly, self if grown else None, self)  # noqa: SLF001
        twin.returned = kept(self.returned, assembly.components)
        return twin

    @classmethod
    def assembled(cls, name: str, assembly: Assembly, policies: Iterable[Any] = ()) -> Workflow:
        """Return the workflow of an *assembly* that was checked before."""
        check_name(name, "a workflow")
        made = cls.__new__(cls)
        made.validate = "off"  # it was checked when it was written
        made._set_up(name, assembly)  # noqa: SLF001
        made.policies = local().checked(policies)
        return made

    @property
    def assembly(self) -> Assembly:
        """The components, inlets and homes it is made of; not to be changed."""
        return self._assembly

    def _draft(self) -> Assembly:
        mine = self._assembly
        return Assembly(mine.components, mine.inlets, mine.homes, mine.names)

    # -- looking ---------------------------------------------------------------------------------

    @property
    def components(self) -> Mapping[str, Component]:
        """The components, by name."""
        return MappingProxyType(self._assembly.components)

    def component(self, which: object) -> Component:
        """
        Return the component that *which*, a name or a component, stands for.

        Raises:
            UnknownComponent: there is none.
        """
        return self._assembly.components[self.name_of(which)]

    def name_of(self, which: object) -> str:
        """Return the name under which this workflow knows *which*, a name or a component."""
        name = which if isinstance(which, str) else getattr(which, "name", None)
        given: Any = which  # what is still of any type after the check
        if isinstance(which, Component):
            name = self._assembly.names.get(given, name)
        if not isinstance(name, str) or name not in self._assembly.components:
            where = f"workflow {self.name!r}"
            if any(known.startswith(f"{name}.") for known in self._assembly.components):
                where += f", but a nested workflow: name one of its components, {name}.<component>"
            if not isinstance(name, str):
                name = getattr(given, "__name__", None) or repr(given)
                where += f": a component is named by text, or given itself, not as {given!r:.80}"
            raise UnknownComponent(name, self._assembly.components, where)
        return name

    def __contains__(self, which: object) -> bool:
        try:
            self.name_of(which)
        except UnknownComponent:
            return False
        return True

    def edges(self) -> set[tuple[str, str]]:
        """Return the flow between components as pairs of names; the input is not among them."""
        return {(parent, child) for parent, children in self.wiring.children.items() for child in children}

    def check(self) -> list[Finding]:
        """
        Return what is certainly wrong with it, although it can run.

        That is: parts that never run, effects that may repeat, and policies without effect.
        """
        return check(self)

    def picture(self) -> Picture:
        """Return what a drawing of this workflow shows, as data; ``to_svg`` and the like draw it."""
        return sketch(self)

    # -- changing --------------------------------------------------------------------------------

    def add(self, fragment: object, *, to: object = None) -> Workflow:
        """
        Return this workflow with *fragment* added, fed by *to*.

        Args:
            to: a component or its name, or that of a part of it (``"trip.book"``); several in a list, or a
                ``join(...)``, are a join.
        """
        flow = as_flow(fragment)
        if to is not None:
            flow = connect(self._resolve(to), flow)
        draft = self._draft()
        draft.take(flow)
        return self._with(draft, grown=draft.touched <= draft.added.keys())

    def remove(self, which: object) -> Workflow:
        """Return this workflow without *which*, whose parents feed its children; unknown names change nothing."""
        if which not in self:
            return self
        name = self.name_of(which)
        if isinstance(self._assembly.components[name], TurnStart | TurnEnd):
            raise DefinitionError(
                f"cannot remove {name!r}: it is one end of a loop, whose body would run on without it; "
                "make the workflow without the loop"
            )
        for part in self.wiring.children[name]:
            if isinstance(inside := self._assembly.components[part], Part) and inside.owner == name:
                return self.remove(part).remove(name)
        draft = self._draft()
        draft.remove(name, fed_by=self.wiring.fed_by(name), feeds=self.wiring.children[name])
        return self._with(draft)

    def replace(self, which: object, component: Component) -> Workflow:
        """Return this workflow with *component* in the place of *which*."""
        old = self.name_of(which)
        if not isinstance(component, Component):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(f"cannot replace {old!r} by {component!r}: it is not a single component")
        if any(isinstance(one, Map | TurnStart | TurnEnd) for one in (component, self._assembly.components[old])):
            raise DefinitionError(
                f"cannot replace {old!r}: an each() or a loop has a body; remove() the parts and add() others"
            )
        draft = self._draft()
        new = component.name or old
        if new != old and new in draft.components:
            raise DefinitionError(f"cannot replace {old!r}: {new!r} is already in workflow {self.name!r}")
        parts = [each.label for each in draft.components.values() if isinstance(each, Part) and each.owner == old]
        if new != old and parts:
            raise DefinitionError(
                f"cannot replace {old!r} by {new!r}: other components take or read {parts[0]!r}; use .named({old!r})"
            )
        draft.replace(old, component)
        twin = self._with(draft)
        twin.returned = None if self.returned is None else kept(renamed(self.returned, {old: new}), draft.components)
        return twin

    def merge(self, other: Workflow) -> Workflow:
        """Return both workflows as one; a component that both have stays one component."""
        if not isinstance(other, Workflow):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"merge() takes a workflow, got {other!r:.120}; to add a component, call add()")
        draft = self._draft()
        draft.merge(other._assembly)
        both = self._with(draft)
        both.declared = ({}, {})
        both.returned = None  # what one of them returned is not the output of both
        both.context = over_defaults(other.context, self.context)
        rules = (*self.policies, *(rule for rule in other.policies if rule not in self.policies))
        both.policies = _with_declared(rules, draft)
        return both

    def renamed(self, name: str) -> Workflow[In_contra, Out_co]:
        """Return this workflow under another *name*; useful to nest it twice."""
        twin = Workflow.__new__(Workflow)
        twin.validate = self.validate
        twin._set_up(name, self._draft(), None, self)  # noqa: SLF001
        twin.returned, twin.traced = self.returned, self.traced
        return twin

    def _parent(self, name: str) -> Component:
        """Return the component, or the part of one, that is called *name*."""
        if name not in self._assembly.components:
            found = part_called(name, self._assembly.components)
            if found is not None:
                return self._assembly.components[found[0]].part(found[1])
            owner, _, part = name.rpartition(".")
            if owner in self._assembly.components:
                raise self._assembly.components[owner].has_no_part(part)
        return self.component(name)

    def _resolve(self, to: object) -> Flow:
        if isinstance(to, str):
            return INPUT.flow() if to == INPUT_NAME else self._parent(to).flow()
        if isinstance(to, list | tuple):
            return as_flow([self._resolve(item) for item in cast("Iterable[object]", to)])
        if isinstance(to, Component):
            known = self.component(cast("Any", to))
            if to not in self._assembly.names and known.identity != to.identity:
                raise DuplicateName(known.label, "the one in the workflow and the one that was given differ in code")
            return known.flow()
        return as_flow(to)

    # -- hooks -----------------------------------------------------------------------------------

    def with_hooks(
        self,
        which: object,
        *,
        before: Hook | Iterable[Hook] = (),
        after: Hook | Iterable[Hook] = (),
    ) -> Workflow:
        """
        Return this workflow with hooks around *which*, behind those that it has.  They are not part of the identity.

        Args:
            which: a component, its name, or the name of a part of it (``"trip.book"``).
            before: a function of what ``weft.current()`` returns, or several; as of ``Component.before``.
            after: a function of that and of the value, or several; as of ``Component.after``.
        """
        found = part_called(which, self._assembly.components) if isinstance(which, str) and which not in self else None
        inside = None if isinstance(which, str) and which not in self else self.component(which)
        if isinstance(inside, Part):
            found = (inside.owner, inside.which)
        name, part = (self.name_of(which), None) if found is None else found
        hooked = self._assembly.components[name].before(*_several(before), part=part)
        hooked = hooked.after(*_several(after), part=part)
        draft = self._draft()
        draft.components = {n: hooked if n == name else component for n, component in draft.components.items()}
        draft.names[hooked] = name
        twin = self._with(draft)
        twin.returned, twin.traced = self.returned, self.traced
        return twin

    # -- policies --------------------------------------------------------------------------------

    def with_policies(self, rules: Iterable[Any]) -> Workflow[In_contra, Out_co]:
        """
        Return this workflow with its rules replaced by *rules*: pairs of a matcher and a policy, the first match wins.

        Rules of a nested workflow come after its own, and are replaced with them.
        Policies are not part of a workflow's identity.
        """
        return self._ruled(local().checked(rules))

    def add_policy(self, matcher: Any, policy: Any) -> Workflow[In_contra, Out_co]:
        """Return this workflow with a rule in front of its others."""
        return self._ruled((*local().checked([(matcher, policy)]), *self.policies))

    def append_policy(self, matcher: Any, policy: Any) -> Workflow[In_contra, Out_co]:
        """Return this workflow with a rule behind its others."""
        return self._ruled((*self.policies, *local().checked([(matcher, policy)])))

    def policy_for(self, which: object) -> Any:
        """Return the policy that holds for *which*: a component, its name, or the name of a part of it."""
        return local().choose(self, which).policy

    def explain_policy(self, which: object) -> Any:
        """Return which rule won for *which*, and what it says; as data, and as text by ``str``."""
        return local().choose(self, which)

    def _ruled(self, rules: tuple[Any, ...]) -> Workflow[In_contra, Out_co]:
        twin = copy(self)
        twin.__dict__.pop("_nested", None)
        twin.policies = _with_declared(rules, self._assembly)
        return twin

    # -- as data ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return this workflow as JSON: components, wiring, policies, and functions by module and name."""
        data: dict[str, Any] = log().to_dict(self)
        return data

    @staticmethod
    def from_dict(data: Mapping[str, Any], *, workflow: Workflow | None = None, strict: bool = False) -> Workflow:
        """
        Return the workflow that :meth:`to_dict` wrote.  Functions are looked up in imported modules, never imported.

        Args:
            workflow: a live definition to take functions from, by component.
            strict: refuse code that has changed since.

        Raises:
            CorruptLog: *data* is not a workflow.
            ChangedCode: *strict*, and some code has changed.
        """
        read: Workflow = log().from_dict(data, workflow=workflow, strict=strict)
        return read

    # -- nesting ---------------------------------------------------------------------------------

    def flow(self) -> Flow[Out_co]:
        """Return this workflow as a part of another one, where its components are called ``name.component``."""
        return self._nested

    @cached_property
    def _nested(self) -> Flow:
        tails = [output.component for output in outputs_in(self.returns)]
        rules = local().within(self.name, self.policies) if self.policies else ()
        context = nested_defaults(self.name, self._assembly.components, self.context) if self.context else {}
        return nested(self.name, self._assembly, tails, order=self.wiring.order, rules=rules, context=context)

    # -- running ---------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Out_co:
        """Run it on one input and return the output, or raise what failed; inside ``@workflow``, draw it as a part."""
        tracer = tracing()
        if tracer is not None:
            return cast("Out_co", tracer.draw(self, args, kwargs))
        inner, given = self.fitted(args, kwargs)
        value = next(iter(given.values()), None) if len(given) < 2 else given
        return cast("Out_co", inner.run(value, raise_on_failure=True).output)

    def fitted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Workflow, dict[str, Any]]:
        """
        Return this workflow as a call with these arguments needs it, and the values for its inputs, by name.

        A traced workflow is drawn again for other constants than its own.

        Raises:
            WrongArity: the arguments do not fit.
        """
        if self.traced is not None:
            return self.traced.fitted(self, args, kwargs)
        if kwargs or len(args) != 1:
            raise WrongArity(f"workflow {self.name!r} takes one input, got {len(args) + len(kwargs)}")
        return self, {"input": args[0]}

    def plan(
        self, value: In_contra | Any = MISSING, *, context: Mapping[str, Any] | None = None, id: str | None = None
    ) -> Run[Out_co]:
        """Return a run that has *value* as its input and has done nothing yet."""
        run = _new_run(self, context, id)
        run.check_context()
        return run if value is MISSING else run.plan(value)

    def plan_eagerly(
        self,
        value: In_contra,
        *,
        context: Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> Run[Out_co]:
        """Return a run that has *value* as its input and has asked its conditions, and done nothing else."""
        return self.plan(context=context, id=id).plan_eagerly(value)

    def react(
        self, value: In_contra, *, context: Mapping[str, Any] | None = None, id: str | None = None
    ) -> Run[Out_co]:
        """Return a run that has *value* as its input and has done one cycle."""
        return self.plan(value, context=context, id=id).react()

    def run(
        self,
        value: In_contra,
        *,
        context: Mapping[str, Any] | None = None,
        id: str | None = None,
        parallel: int | None = None,
        checkpoint: Callable[[Run], None] | None = None,
        raise_on_failure: bool = False,
        clock: Any = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
    ) -> Run[Out_co]:
        """
        Run *value* through this workflow, in memory, until there is nothing to do.

        Where all that is left waits for signals, the run is ``waiting``: ``run.signal(...)`` sends one.

        Args:
            context: values for parameters that read ``context(key)``; never logged.
            id: the id of the run, part of every idempotency key; a unique one is generated if not given.
            parallel: run up to this many at once; plain functions on threads, coroutines in one event loop.
            checkpoint: called with the run after every cycle.
            raise_on_failure: raise the first failure, as StepFailed, when there is nothing left to do.
            clock: what waits for sleeps, backoff and delays; the system's time if not given.
            policies: rules that go in front of the workflow's own, or in their place.
            policies_mode: ``"merge"``, or ``"replace"``.
            deadline: seconds within which everything that follows from *value* must be done.
        """
        run = self.plan(context=context, id=id).under(policies, mode=policies_mode, clock=clock)
        return run.run(
            value, parallel=parallel, checkpoint=checkpoint, raise_on_failure=raise_on_failure, deadline=deadline
        )

    react_until_satisfied = run
    """The same as :meth:`run`."""

    async def arun(
        self,
        value: In_contra,
        *,
        context: Mapping[str, Any] | None = None,
        id: str | None = None,
        parallel: int | None = None,
        checkpoint: Callable[[Run], None] | None = None,
        raise_on_failure: bool = False,
        clock: Any = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
    ) -> Run[Out_co]:
        """Run *value* through this workflow in the running event loop; as :meth:`run`."""
        run = self.plan(context=context, id=id).under(policies, mode=policies_mode, clock=clock)
        return await run.arun(
            value, parallel=parallel, checkpoint=checkpoint, raise_on_failure=raise_on_failure, deadline=deadline
        )

    # -- identity --------------------------------------------------------------------------------

    @cached_property
    def hash(self) -> str:
        """The identity of components, wiring, code and constants; policies and modules are not part of it."""
        return self._digest(lambda component: component.identity)

    @property
    def version(self) -> str:
        """The identity of names, kinds and wiring alone, which does not change with the code of functions."""
        return self._version

    @cached_property
    def _version(self) -> str:
        return self._digest(lambda component: component.outline())

    def _digest(self, identify: Callable[[Component], bytes]) -> str:
        mine = self._assembly
        parts = [self.name.encode()]
        for name in sorted(mine.components):
            component = mine.components[name]
            inlets = [
                (i.parents, i.wait, i.errors) if i.errors else (i.parents, i.wait) for i in self.wiring.fed_by(name)
            ]
            place = canonical((name, inlets, mine.homes.get(name)))
            parts.append(digest(place, identify(component)))
        return digest(*parts).hex()

    @property
    def compiled(self) -> Plan:
        """The compiled form that runs use."""
        return self._plan

    @cached_property
    def _plan(self) -> Plan:
        return Plan(self.wiring)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Workflow) and self.hash == other.hash)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"Workflow({self.name!r}, {len(self._assembly.components)} components)"


def _new_run(workflow: Workflow, context: Mapping[str, Any] | None, run_id: str | None) -> Run:
    tracer = tracing()
    if tracer is not None:
        raise TracingError(
            f"workflow {workflow.name!r} was run while {tracer.name!r} is only being drawn; to make it a part of that, "
            f"call it: {workflow.name}(value)"
        )
    check_context(context)
    if run_id is not None and not isinstance(run_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"id={run_id!r:.80}: the id of a run is text")
    return Run(workflow, context=context, id=run_id)


def _several(hooks: Hook | Iterable[Hook]) -> tuple[Hook, ...]:
    if callable(hooks) or not isinstance(hooks, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        return (hooks,)  # what is not a function is refused where it is added
    return tuple(hooks)


def _with_declared(rules: tuple[Any, ...], assembly: Assembly) -> tuple[Any, ...]:
    """Return *rules* with those for the policies that were declared with the functions of steps."""
    own = {
        f"{name}.{part}" if part else name: policy
        for name, component in assembly.components.items()
        for part, policy in component.own_policies().items()
    }
    declared: tuple[Any, ...] = local().with_declared(rules, own) if own else rules
    return declared
