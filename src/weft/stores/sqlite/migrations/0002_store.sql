-- Which store this is, also as a copy, and how often segments were removed from it (commits.py).  One row.
create table store (
    identity   blob    not null,
    generation integer not null
);

insert into store (identity, generation) values (randomblob(16), 0);
