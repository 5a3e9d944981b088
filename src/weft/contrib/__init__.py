"""
Bridges to other libraries, each behind an extra: nothing else in Weft imports them.

``weft.contrib.otel`` needs the extra ``otel``, ``weft.contrib.prometheus`` the extra ``prometheus``.
"""
