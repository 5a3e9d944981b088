"""The demonstration: a run on a file that is killed with ``kill -9`` and resumed."""

from weft.cli.demo.story import tell

__all__ = ["tell"]
