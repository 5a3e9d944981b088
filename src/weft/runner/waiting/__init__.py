"""
Waiting for runs: the futures of callers, ``on_complete``, and the diagnosis of a wait that takes too long.
"""
