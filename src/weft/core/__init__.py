"""The pure core: components, workflows, plans, facts, events and the fold.  No clock, no I/O, no threads."""
