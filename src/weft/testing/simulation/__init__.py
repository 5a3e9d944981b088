"""
Runners that crash, on virtual time, drawn from a seed.

A scenario says what happens; clients, stores and executors play it; the checks see whether all promises were kept.
"""
