"""
The context of a workflow, seen from outside: which keys it reads, whether a context has them, and its defaults.

    >>> from weft import Workflow, context, step
    >>> @step
    ... def charge(amount, key=context("api_key"), currency=context("currency")):
    ...     return f"{amount} {currency} by {key}"
    >>> shop = Workflow("shop", charge, context={"currency": "EUR"})
    >>> shop.run(5, context={"api_key": "k"}).output
    '5 EUR by k'
    >>> shop.validate_context({})
    Traceback (most recent call last):
        ...
    weft.errors.MissingContext: required context is missing: 'api_key' (for charge); ...

Like the context of a run, defaults are never stored, and are not part of the identity.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, Self

from weft.core.compose.component import Component
from weft.core.graph.context_keys import check_context, keys_read, missing_keys, over_defaults, unread_keys
from weft.core.plan.plan import Plan
from weft.errors import MissingContext, UnknownReference


class ContextDefaults:
    """A workflow and the context of its runs."""

    context: Mapping[str, Any] = MappingProxyType({})
    """The defaults for context keys."""

    @property
    @abstractmethod
    def components(self) -> Mapping[str, Component]:
        """The components, by name."""

    @property
    @abstractmethod
    def compiled(self) -> Plan:
        """The compiled form that runs use."""

    def context_keys(self) -> dict[str, dict[str, Any]]:
        """Return, by component, the context keys it reads and their defaults; a required one has ``MISSING``."""
        return keys_read(self.components)

    def validate_context(self, context: Mapping[str, Any] | None = None) -> None:
        """
        Check that a run of this workflow could be given *context*, without starting one.

        Raises:
            MissingContext: a required key is neither there nor has a default.
            UnknownReference: a key for one component, ``name.key``, that this component does not read.
        """
        given = self._known(context or {})
        missing = missing_keys(self.compiled.required_context, over_defaults(self.context, given))
        if missing:
            raise MissingContext(missing)

    def with_context(self, context: Mapping[str, Any]) -> Self:
        """
        Return this workflow with *context* as defaults, in front of those that it has.

        A run takes them where it is not given the key, for all components or for one.  They are not stored: a run that
        another process resumes has them if it is given the workflow, or registers it.

        Raises:
            UnknownReference: a key for one component, ``name.key``, that this component does not read.
        """
        twin = copy(self)
        twin.__dict__.pop("_nested", None)
        twin.context = over_defaults(self.context, self._known(context))
        return twin

    def _known(self, context: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return *context* if its keys make sense here."""
        check_context(context)
        for name, key in unread_keys(self.components, context):
            known = {key for keys in self.context_keys().values() for key in keys}
            raise UnknownReference(name, "context", key, known, "which it does not read")
        return context
