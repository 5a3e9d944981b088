"""
The effect of each event on the state of a run: joins, gates, batches, settling, loops.

A run is the fold of its log: the same events make the same state.
"""
