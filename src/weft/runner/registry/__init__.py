"""
The runs of a runner, by id: starts, resumes, stops and supervises them.

One call at a time changes a run; changes of different runs do not wait for each other.
"""
