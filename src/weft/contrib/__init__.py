"""
Bridges to other libraries; nothing else in Weft imports them.

``weft.contrib.otel`` needs the extra ``otel``, ``weft.contrib.prometheus`` the extra ``prometheus``.  The others,
``asgi`` and ``logs``, need nothing.
"""
