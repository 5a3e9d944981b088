"""What the tests of our users import."""

from weft.testing.clock import VirtualClock

__all__ = ["VirtualClock"]
