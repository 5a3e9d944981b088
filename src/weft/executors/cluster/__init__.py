"""
Execution on the workers of a cluster: Ray and Dask.

Both share the frames that are exchanged (:mod:`frames`), the code that runs them on a worker (:mod:`remote`), the
decision how many runnables are sent together (:mod:`parcels`), and the tickets (:mod:`executor`).
"""
