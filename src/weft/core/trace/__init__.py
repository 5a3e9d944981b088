"""
``@workflow``: a function that is called once, with symbols, and draws a graph.

The result is an ordinary workflow.
"""
