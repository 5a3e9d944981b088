"""
A wait for a signal: something that a person or another program decides.

    >>> from weft import Workflow, step
    >>> ship = step(lambda answer: f"shipped, said {answer['by']}", name="ship")
    >>> run = Workflow("approval", wait_for("approved") >> ship).run({"order": 1})
    >>> run.status, run.waiting_for
    ('waiting', ['approved'])
    >>> run.signal("approved", {"by": "Ada"}).react_until_satisfied().value("ship")
    'shipped, said Ada'

A signal goes to the wait that it is for; if there are several, to the one that has waited longest.  A signal that comes
before its wait is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from weft.core.components.schema import Schema, schema_of
from weft.core.components.waiting import Waiting
from weft.core.components.waits import Waits, called_while_waiting, checked_seconds
from weft.core.compose.component import abridged, check_name
from weft.core.draw.progress import duration
from weft.core.functions.annotations import ANY
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical
from weft.errors import InvalidComponent, WrongArity
from weft.typing import Out_co

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class WaitFor(Waiting[Out_co]):
    """Waits for a signal, and produces the value of the signal."""

    signal: str
    timeout: float | None = None
    """Seconds until it gives up; None to wait forever."""
    match: Function | None = None
    schema: Schema | None = None
    kind: ClassVar[str] = "wait_for"

    if TYPE_CHECKING:

        def __call__(self, value: Any, /) -> Out_co:
            """Draw it inside ``@workflow``."""
            ...

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.signal, "a signal")

    def functions(self) -> dict[str, Function]:
        """Return the function that decides whether a signal is for this wait."""
        return {} if self.match is None else {"match": self.match}

    def arriving(self) -> dict[str, Function]:
        """Return nothing: what arrives only begins the wait."""
        return {}

    @property
    def makes(self) -> Any:
        """The type of the signal's value."""
        return ANY if self.schema is None or self.schema.missing else self.schema.type

    def classes(self) -> Iterable[type]:
        """Return the classes of the schema."""
        return () if self.schema is None else self.schema.classes()

    def check_width(self, width: int, source: str) -> None:
        """Require one value."""
        if width != 1:
            raise WrongArity(f"{self.label!r} begins to wait when one value arrives and gets {width} from {source}")

    def expand(self, into: Expansion) -> None:
        """One node that waits."""
        schema = None if self.schema is None else self.schema.missing or self.schema.type
        into.feed(into.wait(Waits(signal=self.signal, seconds=self.timeout, match=self.match, schema=schema)))

    @property
    def note(self) -> str:
        """The signal, and how long it is waited for, in the few words that a picture has room for."""
        said = [] if self.label.rpartition(".")[2] == self.signal else [abridged(self.signal)]
        if self.timeout is not None:
            said.append(f"at most {duration(self.timeout) if self.timeout else 'no time'}")
        return f"✉ {' · '.join(said)}".strip()

    def details(self) -> bytes:
        """The signal, and how long it is waited for."""
        schema = b"" if self.schema is None else self.schema.identity
        return canonical((self.signal, self.timeout, schema))


@overload
def wait_for(
    signal: str,
    *,
    timeout: float | timedelta | None = None,
    match: Callable[..., object] | None = None,
    schema: type[T],
    name: str | None = None,
) -> WaitFor[T]: ...
@overload
def wait_for(
    signal: str,
    *,
    timeout: float | timedelta | None = None,
    match: Callable[..., object] | None = None,
    schema: Any = None,
    name: str | None = None,
) -> WaitFor[Any]: ...
def wait_for(
    signal: str,
    *,
    timeout: float | timedelta | None = None,
    match: Callable[..., object] | None = None,
    schema: Any = None,
    name: str | None = None,
) -> WaitFor[Any]:
    """
    Wait for the *signal*, and pass on its value in place of what arrived.

    Args:
        timeout: how many seconds to wait; then the component fails with ``SignalTimeout``.
        match: whether a signal is for this wait: a function of its value, or of its value and of what arrived here.
        schema: the type of the value: a dataclass, a TypedDict, a ``msgspec.Struct``, a pydantic model, or a type that
            is made of classes, such as ``list[int]``.  What is sent is converted to it, or refused.
        name: its name; that of the signal if not given.

    Raises:
        InvalidComponent: an argument that makes no sense.
    """
    limit = None if timeout is None else checked_seconds("timeout", timeout)
    if limit is not None and limit < 0:
        raise InvalidComponent(f"timeout={timeout!r}: use a number of seconds that is not negative")
    return WaitFor(
        signal if name is None else name,
        signal,
        limit,
        None if match is None else called_while_waiting("match", match, most=2),
        None if schema is None else schema_of(schema),
    )
