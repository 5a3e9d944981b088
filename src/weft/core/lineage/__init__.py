"""
Facts and where they came from.

A fact is a value at a position of the log; its lineage leads back to the input.
"""
