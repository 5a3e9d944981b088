"""
How fast Weft is where every step is stored: the runner, on memory and on a disk, beside its alternatives.

Commits wait for a disk, so these are wall times; what the process itself needed is beside
them as CPU time, which is what is left of a figure on shared cores.  What is compared is
taken in turns, so that a slow minute of the machine or the disk falls on all of it.
"""
