"""
Driving one run: what is queued, in flight or waiting, and with which policies.

The worker decides; the dispatcher shares executors and limits between workers.
"""
