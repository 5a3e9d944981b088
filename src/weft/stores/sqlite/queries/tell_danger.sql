-- Note that it is told that the deadline of a run is in danger, unless it was told before.
update deadlines
set told = 1, danger_at = min(danger_at, :now)
where run = (select key from runs where id = :run) and deadline = :deadline and not told
