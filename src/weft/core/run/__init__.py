"""
A run: its log, the state that the log makes, and what can be asked of it.

A run is driven from outside: ``prepare`` returns what can be executed, ``apply`` takes what came of it.
"""
