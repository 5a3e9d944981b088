"""
The checked graph of a workflow: which component feeds which, and with what types.

What is wrong with a workflow is said here, before anything runs.
"""
