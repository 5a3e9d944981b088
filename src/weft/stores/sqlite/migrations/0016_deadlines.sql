-- The earliest deadline of what is open in a run: since when it is in danger, and whether that was told (ADR 57).  A
-- table of its own: most runs have no deadline.
create table deadlines (
    run       integer primary key,  -- runs.key
    danger_at real    not null,
    deadline  real    not null,
    told      integer not null default 0
);

create index deadlines_by_danger on deadlines (danger_at);
create index deadlines_untold on deadlines (danger_at) where not told;
