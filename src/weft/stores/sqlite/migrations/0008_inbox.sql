-- Messages for runs, from callers that do not own them (inbox.py).  Numbers are never used again: an owner remembers the
-- last one that it has applied.
create table inbox (
    number integer primary key autoincrement,
    run    integer not null,  -- runs.key
    kind   text    not null,
    at     real    not null,
    body   blob    not null
);

create index inbox_by_run on inbox (run, number);

-- Where an open store hears of messages for its runs: a port of the loopback address (doorbell.py).
alter table sessions add column port integer;

-- When runs that only wait have to be woken.  A table of its own: most runs never wait.
create table wakes (
    run integer primary key,  -- runs.key
    at  real    not null
);
