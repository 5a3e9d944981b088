"""
Which runs are here: found by id, started, stopped, and kept apart from each other.

One call at a time changes a run; different runs do not wait for each other.
"""
