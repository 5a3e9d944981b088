"""
The checked graph of a workflow: which component feeds which, and with what types.

A workflow that cannot work is refused here, before anything runs.
"""
