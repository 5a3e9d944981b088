"""
The language of ``>>``: components, flows of components, and the assembly of flows into a workflow.

The result is only a description; :mod:`weft.core.graph.wiring` checks it.
"""
