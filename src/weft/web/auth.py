"""
Authentication: identities, roles, sessions, and tokens against forged requests.

A request is made by an identity, which has one of three roles; each includes those before it:

    read      look at everything that is shown
    operate   change runs: retry, cancel, finish, send, signal, fork, start again, change policies;
              pause, unpause and backfill schedules
    admin     drain workers, and remove schedules

Without an ``auth`` the dashboard trusts the machine it runs on, and answers only requests that come from a loopback
address and name one: a page from elsewhere that leads its own host name to 127.0.0.1 is refused, and so is what a proxy
passes on.

A session ends twelve hours after it was used last.  It is a random number in a cookie that scripts cannot read and
other sites cannot send.  Every form carries a token that is derived from it, so that a request from another page
changes nothing.  A request with a token in its ``Authorization`` header has no cookie that another page could use, and
needs none.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from starlette.requests import Request

from weft.errors import InvalidOption

Role = Literal["read", "operate", "admin"]

RANK: Final[dict[Role, int]] = {"read": 1, "operate": 2, "admin": 3}

COOKIE: Final = "weft_session"
MOST_SESSIONS: Final = 10_000
IDLE: Final = 12 * 3_600.0
"""Seconds after which a session that was not used has ended."""
SHORTEST_TOKEN: Final = 16
"""A shorter token could be guessed."""


class Identity(msgspec.Struct, frozen=True):
    """A person or a program that uses the dashboard; *name* goes into the log of what it changes."""

    name: str
    role: Role = "read"

    def may(self, role: Role) -> bool:
        """Return whether this identity has *role*."""
        return RANK[self.role] >= RANK[role]


Auth: TypeAlias = Callable[[Request], "Identity | Awaitable[Identity | None] | None"]
"""Says who makes a request; None if that is not known."""

LOCAL: Final = Identity("local", "admin")
"""The identity of requests from this machine, where nothing else is asked for."""


class Tokens:
    """
    Tokens that people and programs show, each with the identity that it stands for.

    >>> tokens = Tokens({"correct-horse-battery": Identity("ada", "operate")})
    >>> tokens.identity("correct-horse-battery").name
    'ada'
    >>> tokens.identity("guess") is None
    True
    """

    def __init__(self, identities: Mapping[str, Identity]) -> None:
        for token in identities:
            if len(token) < SHORTEST_TOKEN:
                raise InvalidOption(f"a token of {len(token)} characters can be guessed: use {SHORTEST_TOKEN} or more")
        # Only digests are kept, and compared in a time that does not depend on them.
        self._identities = {hashlib.sha256(token.encode()).digest(): each for token, each in identities.items()}

    def identity(self, token: str) -> Identity | None:
        """Return the identity that *token* stands for, if there is one."""
        asked = hashlib.sha256(token.encode()).digest()
        found = None
        for known, identity in self._identities.items():
            if hmac.compare_digest(known, asked):
                found = identity
        return found


class Sessions:
    """
    The sessions of browsers, in the memory of this process.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._secret = secrets.token_bytes(32)
        self._clock = clock
        self._known: dict[str, tuple[Identity, float]] = {}

    def open(self, identity: Identity) -> str:
        """Begin a session of *identity*, and return its number."""
        while len(self._known) >= MOST_SESSIONS:
            del self._known[next(iter(self._known))]
        number = secrets.token_urlsafe(24)
        self._known[number] = (identity, self._clock())
        return number

    def find(self, number: str | None) -> Identity | None:
        """Return the identity of a session, which is used by that; None if there is none, or it has ended."""
        if number is None or (known := self._known.pop(number, None)) is None:
            return None
        identity, used = known
        if used + IDLE <= self._clock():
            return None
        self._known[number] = (identity, self._clock())  # the one that was not used for longest stands first
        return identity

    def close(self, number: str | None) -> None:
        """End a session."""
        if number is not None:
            self._known.pop(number, None)

    def form_token(self, number: str) -> str:
        """Return the token that forms of this session carry."""
        return hmac.new(self._secret, number.encode(), "sha256").hexdigest()

    def is_own_form(self, number: str | None, token: str | None) -> bool:
        """Return whether *token* came from a form of this session."""
        return number is not None and token is not None and hmac.compare_digest(self.form_token(number), token)
