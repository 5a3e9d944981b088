"""
A saga: transactions one after another; when one fails, the completed ones are compensated in reverse order.

    >>> from weft import Workflow
    >>> trip = Saga("trip")
    >>> @trip.transaction
    ... def book(request, results):
    ...     return "booked"
    >>> @book.compensate
    ... def cancel(request, results):
    ...     return f"{results['book']} no more"
    >>> @trip.transaction(compensate=None)
    ... def pay(request, results):
    ...     raise ValueError("declined")
    >>> run = Workflow("travel", trip).run({"to": "Rome"})
    >>> run.state_of("trip")
    SagaOutcome(status='aborted', results={'book': 'booked'}, failed_step='pay', ... compensated=['book'], remaining=[])
    >>> run.value("trip.cancel"), run.failed
    ('booked no more', False)

Every transaction and every compensation is a separate runnable, ``trip.book`` and ``trip.cancel``, with its own
policy and log entry, so after a crash the saga continues where it was.  An aborted saga is an outcome, not a failure.
A compensation that fails for good is kept as a dead letter: the saga is stuck until it is retried or discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, ParamSpec, Self, TypeVar, cast, overload

from weft.core.components.builder import Builder, Parts
from weft.core.components.message_names import by_part
from weft.core.components.saga_outcome import HistoryReader, SagaOutcome, Undo
from weft.core.components.state_change import adapted
from weft.core.compose.component import check_arity, check_filled, check_name
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical, digest
from weft.core.functions.initial import Initial
from weft.core.functions.references import MISSING
from weft.errors import InvalidComponent, WrongArity

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion, NodeHandle

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Deed:
    """A transaction and how it is undone; *undo* is None if nothing has to be undone, MISSING until it is declared."""

    function: Function
    undo: Function | Any | None
    undo_name: str = ""

    def renamed(self, names: Mapping[str, str]) -> Deed:
        """Return this deed with components renamed as *names* says."""
        return replace(self, function=self.function.renamed(names), undo=self.undo and self.undo.renamed(names))


class Transaction(Generic[P, R]):
    """A transaction as it was declared: still the plain function, and where its compensation is declared."""

    def __init__(self, saga: Saga, name: str, function: Callable[P, R]) -> None:
        self._saga, self.name, self.__wrapped__ = saga, name, function
        self.function = Function.of(function)
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it was written."""
        return cast("R", self.function.plainly(args, kwargs))

    @overload
    def compensate(self, function: C, *, name: str | None = None) -> C: ...
    @overload
    def compensate(self, *, name: str | None = None) -> Callable[[C], C]: ...
    def compensate(self, function: Any = None, *, name: str | None = None) -> Any:
        """
        Declare what undoes this transaction: a function of the request and the results; also a decorator.

        Args:
            name: its name; by default that of the function, or ``<transaction>.undo`` if it has none.
        """

        def declare(call: C) -> C:
            self._saga.undo(self.name, call, name=name)
            return call

        return declare if function is None else declare(function)

    def __repr__(self) -> str:
        return f"Transaction({self._saga.label}.{self.name})"


@dataclass(frozen=True, eq=False, repr=False)
class Saga(Builder):
    """
    Transactions, in the order they are declared, and how each is undone.

    Args:
        on_complete: runs when all transactions are done: a function of the outcome or of nothing.
        on_abort: runs when everything that was done is undone: a function of the outcome or of nothing.
    """

    on_complete: Any = field(default=None, kw_only=True)
    on_abort: Any = field(default=None, kw_only=True)
    deeds: Parts = field(default_factory=Parts, kw_only=True)
    kind: ClassVar[str] = "saga"
    keeps_state: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("on_complete", "on_abort"):
            call = self.__dict__[name]
            self.__dict__[name] = call if call is None or isinstance(call, Function) else Function.of(call)

    @overload
    def transaction(
        self, function: Callable[P, R], *, name: str | None = None, compensate: Any = MISSING
    ) -> Transaction[P, R]: ...
    @overload
    def transaction(
        self, *, name: str | None = None, compensate: Any = MISSING
    ) -> Callable[[Callable[P, R]], Transaction[P, R]]: ...
    def transaction(
        self, function: Callable[..., Any] | None = None, *, name: str | None = None, compensate: Any = MISSING
    ) -> Any:
        """
        Declare the next transaction: a function of the request and the results so far; also a decorator.

        Args:
            name: its name; by default that of the function, if it has one.
            compensate: what undoes it, if that is not declared with ``.compensate``; None if nothing has to be undone.
        """

        def declare(call: Callable[..., Any]) -> Transaction[..., Any]:
            read = Function.of(call)
            given = name or read.name
            check_name(given, f"a transaction of {self.label!r}")
            self.deeds.put(self.label, "a transaction", given, Deed(read, None if compensate is None else MISSING))
            if compensate is not None and compensate is not MISSING:
                self.undo(str(given), compensate)
            return Transaction(self, str(given), call)

        return declare if function is None else declare(function)

    def undo(self, transaction: str, function: Callable[..., Any], *, name: str | None = None) -> None:
        """Declare that *function*, under its own name or as *name*, undoes the *transaction*."""
        deed: Deed = self.deeds[transaction]
        if deed.undo is not MISSING:
            raise InvalidComponent(
                f"how {transaction!r} of {self.label!r} is undone is declared already; take one away"
            )
        read = Function.of(function)
        called = name or read.name or f"{transaction}.undo"
        check_name(called, f"a compensation of {self.label!r}")
        self.deeds.change(self.label, transaction, Deed(deed.function, read, called))

    def check(self) -> None:
        """Refuse a saga without transactions, and transactions without a declared compensation."""
        if not self.deeds:
            raise InvalidComponent(
                f"the saga {self.label!r} has no transactions; declare them: @{self.label}.transaction"
            )
        for name, deed in self.deeds.items():
            if deed.undo is MISSING:
                raise InvalidComponent(
                    f"the transaction {name!r} of {self.label!r} has no compensation; declare it with "
                    f"@{name}.compensate, or say that nothing has to be undone: transaction(compensate=None)"
                )
        self.functions()

    def on_error(self, *errors: type[BaseException], then: object) -> NoReturn:
        """Refuse: the failures of a saga lead to its compensations."""
        del errors, then
        raise InvalidComponent(
            f"{self.label!r} is a saga: a failure of a transaction leads to its compensations, and then to an outcome; "
            f"handle that: {self.label} >> step, or on_abort="
        )

    # -- what every component says ---------------------------------------------------------------

    def functions(self) -> dict[str, Function]:
        """Return the transactions, the compensations and what follows the outcome."""
        return by_part(
            self.label,
            [
                *((name, deed.function) for name, deed in self.deeds.items()),
                *((deed.undo_name, deed.undo) for deed in self.deeds.values() if isinstance(deed.undo, Function)),
                ("on_complete", self.on_complete),
                ("on_abort", self.on_abort),
            ],
        )

    def parts(self) -> dict[str, Function]:
        """Return all of its functions: each is a separate runnable."""
        return self.functions()

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this saga with components renamed as *names* says."""
        ends = {name: getattr(self, name) for name in ("on_complete", "on_abort")}
        moved = {name: function and function.renamed(names) for name, function in ends.items()}
        return replace(super().renamed(names), **moved)

    def arriving(self) -> dict[str, Function]:
        """Return the transactions and compensations, which get the request."""
        return {part: call for part, call in self.functions().items() if part not in ("on_complete", "on_abort")}

    @property
    def makes(self) -> Any:
        """The outcome."""
        return SagaOutcome

    def check_width(self, width: int, source: str) -> None:
        """Require one request, and functions of it and the results."""
        if width != 1:
            raise WrongArity(f"{self.label!r} takes one request at a time and gets {width} from {source}")
        for part, function in self.functions().items():
            if part in ("on_complete", "on_abort"):
                check_arity(f"{self.label}.{part}", function, 1, f"{self.label}, the outcome", spread=False)
                continue
            check_filled(f"{self.label}.{part}", function)
            if not function.takes(2):
                takes = ", ".join(function.required)
                raise WrongArity(f"'{self.label}.{part}' must take (request, results); it takes ({takes})")

    def expand(self, into: Expansion) -> None:
        """A chain of transactions, a chain of compensations back, and the outcome at the end of both."""
        reader = HistoryReader(self.nodes(into.name), self.undoable())
        done = [into.relay(adapted(deed.function, reader.given), part=name) for name, deed in self.deeds.items()]
        undone = {
            at: into.relay(Undo(reader, name, deed.undo).function(), part=deed.undo_name, undoes=True)
            for at, (name, deed) in enumerate(self.deeds.items())
            if deed.undo is not None
        }
        outcome = into.work(Function(reader.outcome, (), variadic=True), pending=_PENDING)
        completed, aborted = [outcome], [outcome]
        for part, end, nodes in (("on_complete", self.on_complete, completed), ("on_abort", self.on_abort, aborted)):
            if end is not None:
                nodes.append(into.work(adapted(end, reader.ended), part=part))
        into.begin(done[0])
        for at, node in enumerate(done):
            for following in done[at + 1 : at + 2] or completed:
                into.link(node, following)
            for back in _before(at, undone) or aborted:
                into.link_failure(node, back)
        for at in sorted(undone, reverse=True):
            if at < len(done) - 1:  # nothing can fail after the last one
                for back in _before(at, undone) or aborted:
                    into.link(undone[at], back)

    def nodes(self, owner: str) -> dict[str, str]:
        """Return the transactions, each with the name of its node in the saga that is called *owner*."""
        return {name: f"{owner}.{name}" for name in self.deeds}

    def undoable(self) -> frozenset[str]:
        """Return the transactions that have a compensation."""
        return frozenset(name for name, deed in self.deeds.items() if deed.undo is not None)

    def outline(self) -> bytes:
        """The kind, and the order of the transactions, which is wiring."""
        return digest(super().outline(), self.details())

    def details(self) -> bytes:
        """The order of the transactions, and their compensations."""
        return canonical([(name, deed.undo_name) for name, deed in self.deeds.items()])


def _before(at: int, undone: Mapping[int, NodeHandle]) -> list[NodeHandle]:
    """Return the compensation that comes before the transaction *at*, on the way back."""
    found = [undone[before] for before in reversed(range(at)) if before in undone]
    return found[:1]


_PENDING = Initial(lambda: SagaOutcome("pending"))
