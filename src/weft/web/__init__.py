"""
The dashboard: the runs of any store in a browser, live, with what is wrong first.

Needs the extra ``ui``.  ``weft ui`` serves it; :func:`app` returns it for an application of your own.
"""

from weft.web.app import app
from weft.web.auth import Auth, Identity, Role, Tokens

__all__ = ["Auth", "Identity", "Role", "Tokens", "app"]
