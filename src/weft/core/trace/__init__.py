"""
``@workflow``: a function that is called once, with symbols, and draws a graph.

What it draws is an ordinary workflow.
"""
