-- Snapshots, one for each run, apart from its row, which every append writes again; what steps write while they run; and
-- of each run, which one continues it, and where it belongs in the queue if it gets work again.  See docs/adr/0045.

alter table {schema}.weft_runs
    add column successor text collate "C",
    add column queue text collate "C" not null default 'default',
    add column priority integer not null default 0;
update {schema}.weft_runs r
set queue = q.queue, priority = q.priority
from {schema}.weft_queue q
where q.run = r.key and (q.queue <> 'default' or q.priority <> 0);

create table {schema}.weft_snapshots (
    run bigint primary key,
    position bigint not null,
    body bytea not null
);
alter table {schema}.weft_snapshots alter column body set storage external;

create table {schema}.weft_streams (
    run bigint not null,
    items bigint not null,
    name text collate "C" not null,
    primary key (run, name)
);

create table {schema}.weft_chunks (
    run bigint not null,
    start bigint not null,
    items integer not null,
    attempt integer not null,
    place bigint not null,
    at double precision not null,
    stream text collate "C" not null,
    component text collate "C" not null,
    execution text collate "C" not null,
    body bytea not null,
    primary key (run, stream, start)
);

create table {schema}.weft_progress (
    run bigint primary key,
    body bytea not null
);
