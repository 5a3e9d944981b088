"""
A run: its log, the state that follows from the log, and its queries.

A run is driven from outside: ``prepare`` returns the runnables that are ready, ``apply`` takes their outcomes.
"""
