-- Segments were removed: one that is not there may have been one of them.
update store set generation = generation + 1
