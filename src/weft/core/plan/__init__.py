"""
The compiled form of a workflow: one node per thing that can run or wait, with everything worked out in advance.

The fold reads it on every event, and never changes it.
"""
