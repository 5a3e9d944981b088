"""
Drives one run: its runnables are queued, in flight or waiting, as their policies say.

A worker decides for its run; the dispatcher shares executors and limits between workers.
"""
