"""
Simulates runners that crash, on virtual time, drawn from a seed.

A scenario says what happens; clients, stores and executors carry it out; the checks find broken guarantees.
"""
