-- Steps that any worker of a queue may run (ADR 53).  A row is a runnable of a run that is in flight; it leaves with the
-- append that has its outcome.  `fence` is raised with each claim, so that the outcome of an earlier one is dropped.
create table {schema}.weft_tasks (
    key bigint generated always as identity primary key,
    run text not null,
    runnable text not null,
    attempt integer not null,
    epoch bigint not null,
    queue text not null,
    priority integer not null,
    workflow text not null,
    version text not null,
    owner bigint not null,
    state text not null default 'waiting',
    worker bigint,
    fence integer not null default 0,
    deaths integer not null default 0,
    body bytea not null,
    outcome bytea,
    changed_at timestamptz not null default clock_timestamp(),
    unique (run, runnable)
);

create index weft_tasks_waiting on {schema}.weft_tasks (queue, priority desc, key) where state = 'waiting';
create index weft_tasks_claimed on {schema}.weft_tasks (worker) where state = 'claimed';

-- Large values, which many steps of a run share.
create table {schema}.weft_task_values (
    run text not null,
    hash bytea not null,
    body bytea not null,
    changed_at timestamptz not null default clock_timestamp(),
    primary key (run, hash)
);
