-- The runs that continue others as new ones: messages for the old run go to the new one.
create table successors (
    run       integer primary key,  -- runs.key of the old run
    successor text    not null      -- runs.id of the new one
);
