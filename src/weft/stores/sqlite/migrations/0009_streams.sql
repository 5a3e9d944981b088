-- What steps write while they run (streams.py), in chunks of items.
create table chunks (
    run       integer not null,  -- runs.key
    stream    text    not null,
    start     integer not null,  -- the offset of its first item
    items     integer not null,  -- how many there are
    component text    not null,
    attempt   integer not null,
    execution text    not null,
    place     integer not null,  -- how many items that execution had written before
    at        real    not null,
    body      blob    not null,
    primary key (run, stream, start)
) without rowid;

-- The progress that a process was last asked for, of runs that it drives.
create table progress (
    run  integer primary key,  -- runs.key
    body blob not null
);
