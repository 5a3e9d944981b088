-- When the deadline of a run is in danger, and when it is past; what was told of another deadline counts no more.
insert into deadlines (run, danger_at, deadline) values (?, ?, ?)
on conflict (run) do update
set told = told and deadline = excluded.deadline,
    danger_at = case when deadline = excluded.deadline then min(danger_at, excluded.danger_at) else excluded.danger_at end,
    deadline = excluded.deadline
