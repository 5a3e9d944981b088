"""
Waiting for runs: futures of callers, callbacks at the end, and why a run is not done yet.
"""
