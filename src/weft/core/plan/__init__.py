"""
The compiled form of a workflow: one node for everything that can run or wait, with all decisions made in advance.

The fold reads it on every event, and never changes it.
"""
