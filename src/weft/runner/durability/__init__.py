"""
The runner's side of the store: events that are not written yet, ownership of runs, and recovery after a crash.

Nothing is acknowledged before the store has written it.
"""
