-- What the future of a run needs, after one of its events: a cache of its log.  One per run.
create table snapshots (
    run      integer primary key,
    position integer not null,
    body     blob    not null
);
