-- The databases of a fleet on several.  See docs/adr/0054.
create table {schema}.weft_shard (
    is_only boolean primary key default true check (is_only),
    id text collate "C" not null,
    fence text collate "C" not null default ''
);
insert into {schema}.weft_shard (id) values (replace(gen_random_uuid()::text, '-', ''));

create table {schema}.weft_shards (
    shard text collate "C" primary key,
    since integer not null,
    had_runs boolean not null
);
