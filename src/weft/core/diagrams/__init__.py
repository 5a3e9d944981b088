"""
A workflow or a run as a picture.

How a picture is laid out and written is the matter of :mod:`weft.core.draw`, which knows nothing of Weft.
"""
