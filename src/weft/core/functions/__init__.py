"""
A user's function, inspected once: its parameters, its code, and the calls it may make while it runs.

Nothing here knows about graphs or runs.
"""
