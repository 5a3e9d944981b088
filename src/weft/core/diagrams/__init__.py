"""
A workflow or a run as a picture.

:mod:`weft.core.draw`, which knows nothing of workflows, lays a picture out and renders it.
"""
