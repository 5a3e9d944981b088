-- Limits that hold across the fleet.  See docs/adr/0047.
create table {schema}.weft_limits (
    due double precision not null default 0,
    revision bigint not null default 0,
    kind text collate "C" not null,
    name text collate "C" not null,
    rule text not null default '',
    state bytea not null default '',
    primary key (kind, name)
);

create table {schema}.weft_limit_places (
    expires_at timestamptz not null,
    places integer not null,
    used integer not null,
    wanted integer not null,
    name text collate "C" not null,
    owner text collate "C" not null,
    primary key (name, owner)
);
