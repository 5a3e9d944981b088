"""
Operations on many runs: a job visits the runs that a filter matches, in pages, and sends each a message once.

The decisions are pure (:mod:`decision`); workers of a fleet drive jobs (:mod:`loop`); clients create and watch them.
"""
