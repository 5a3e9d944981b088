"""
The options for runs that a runner was made with, and how the options of one run override them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from weft.errors import InvalidOption
from weft.runner.options import RunOptions
from weft.runner.waiting.on_complete import given as check_callback

_BESIDES: Final = ("policies", "policies_mode", "deadline")
"""Settings of a child run that are not options of its worker."""


class UsualOptions:
    """The options of a run for which no others were given."""

    def __init__(self, options: RunOptions, executors: Collection[str]) -> None:
        """
        Check the *options* that a runner was made with.

        Raises:
            InvalidOption: the executor is not one of *executors*, or runs coroutines only.
        """
        self._executors = executors
        self.options = self._checked(options)

    def but(self, **said: Any) -> RunOptions:
        """Return the options of a run for which some were *said*; None stands for an option that was not given."""
        return self._checked(self.options.but(**{name: value for name, value in said.items() if value is not None}))

    def of_child(self, options: dict[str, Any], parent: RunOptions) -> tuple[RunOptions, dict[str, Any]]:
        """Split *options* into those of a child, over the ones of its *parent*, and its policies and deadline."""
        if not options and parent is self.options:  # a child has neither the hooks nor the callback of its parent
            return parent, {}
        besides: dict[str, Any] = {key: options.pop(key) for key in _BESIDES if key in options}
        return self._checked(parent.but(**options)), besides

    def _checked(self, options: RunOptions) -> RunOptions:
        if options.executor not in self._executors:
            raise InvalidOption(f"executor={options.executor!r}: use one of {', '.join(map(repr, self._executors))}")
        if options.executor == "async":
            raise InvalidOption("executor='async' is for coroutine functions, which always run there; use 'thread'")
        if options.on_complete is not None:
            check_callback(options.on_complete)
        return options
