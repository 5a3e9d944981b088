"""
Execution on the workers of a cluster: Ray and Dask.

What both share is here: the bytes that cross (:mod:`frames`), how they are run on the other side (:mod:`remote`), how
many runnables are sent together (:mod:`parcels`), and the tickets (:mod:`executor`).
"""
