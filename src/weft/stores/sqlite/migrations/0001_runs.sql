-- An open store.  Its runs are held as long as the lock on its file is (ownership.py).
-- Keys are never used again: a run may name a session that is gone.
create table sessions (
    key   integer primary key autoincrement,
    token text    not null unique,
    host  text    not null,
    pid   integer not null
);

create table runs (
    key        integer primary key,
    id         text    not null unique,
    workflow   text    not null,
    version    text    not null,
    status     text    not null,
    reason     text    not null,
    chain      blob    not null,  -- where the log was when this row was written
    epoch      integer not null,
    created_at real    not null,
    updated_at real    not null,  -- when this row was; the log may be younger
    owner      integer  -- the key of a session; free if that is null, closed or dead
);

-- Touched by an append that says a status, as is the row above; by no other.
create index runs_by_status on runs (status, created_at, id);

-- What one append wrote.  The last segment of a run is its head: an append that only adds events dirties one page,
-- and a commit is as cheap as it can be.  The place is (runs.key << 32) + the number of the first event: one integer keeps the
-- segments of a run together and in order, in a tree whose inner pages hold no bodies.
create table segments (
    place integer primary key,
    count integer not null,
    chain blob    not null,
    at    real    not null,
    body  blob    not null
);

create table facts (
    run  integer not null,
    hash blob    not null,
    body blob    not null,
    unique (run, hash)
);

create table definitions (
    hash blob primary key not null,
    body blob not null
);
