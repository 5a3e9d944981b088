"""
The runner's side of the store: events on the way to it, ownership of runs, and recovery after a crash.

Nothing is acknowledged before the store has taken it.
"""
