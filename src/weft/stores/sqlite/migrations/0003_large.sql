-- A large value that is written ahead of the append that it goes with, in parts (large_values.py).
-- Keys are never used again: they are given to values that nothing else names yet.
create table large (
    key     integer primary key autoincrement,
    session integer,  -- who is writing it; 0 or a session that is gone: to be removed; null: it is whole, and a fact has it
    length  integer not null
);

-- Only what is being written or removed.
create index large_unfinished on large (session) where session is not null;

-- The place is (large.key << 32) + the number of the part, from 1.
create table parts (
    place integer primary key,
    body  blob    not null
);

-- Null: the body is the value.  Else the value is in parts, under this key, and the body is empty.
alter table facts add column large integer;
