"""
Spread: steps of one run on all workers of a fleet (ADR 53).

The owner of a run sends a step whose policy names a queue (:mod:`executor`); a worker that serves the queue claims it
(:mod:`server`).  What crosses is data (:mod:`frames`).
"""
