-- The earliest deadline of what is open in a run: since when it is in danger, and whether that was told (ADR 57).  A
-- table of its own: most runs have no deadline.
create table {schema}.weft_deadlines (
    run bigint primary key,
    danger_at double precision not null,
    deadline double precision not null,
    told boolean not null default false
);
create index weft_deadlines_untold on {schema}.weft_deadlines (danger_at) where not told;
create index weft_deadlines_by_danger on {schema}.weft_deadlines (danger_at);
