"""
A user's function, read once: its parameters, its code, and what it may ask for while it runs.

Nothing here knows of graphs or runs.
"""
