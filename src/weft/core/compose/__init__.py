"""
The language of ``>>``: components, flows of them, and how flows are put together.

What is composed is a description; :mod:`weft.core.graph.topology` checks it.
"""
