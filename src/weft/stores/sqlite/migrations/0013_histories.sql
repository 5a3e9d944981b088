-- Old segments of a run, many in one row (packs.py): what is read is the same.  The place is that of the first of them,
-- as in the table of segments; the last segments of a run are always there.
create table packs (
    place integer primary key,
    count integer not null,  -- events
    body  blob    not null
);

-- Logs that were truncated: the first event that is left, and the link before it.  What stands before it and has not
-- been removed yet is not read.
create table truncations (
    run   integer primary key,  -- runs.key
    first integer not null,
    link  blob    not null
);

-- The last commit that is noted may be in a run that is deleted now, whose first segment was moved or removed before.
create trigger removed_runs after delete on runs
begin
    update store set generation = generation + 1;
end;

-- The runs that have messages, and the owner that each had when it was last acquired or got one: an owner finds its
-- messages without a look at those of others.
create table mail (
    run   integer primary key,  -- runs.key
    owner integer
);

create index mail_by_owner on mail (owner);

insert into mail (run, owner) select key, owner from runs where key in (select run from inbox);

create trigger mail_came after insert on inbox
begin
    insert into mail (run, owner) select new.run, (select owner from runs where key = new.run) where true
    on conflict (run) do update set owner = excluded.owner;
end;

create trigger mail_moved after update of run on inbox
begin
    insert into mail (run, owner) select new.run, (select owner from runs where key = new.run) where true
    on conflict (run) do update set owner = excluded.owner;
    delete from mail where run = old.run and not exists (select 1 from inbox where run = old.run);
end;

create trigger mail_went after delete on inbox
begin
    delete from mail where run = old.run and not exists (select 1 from inbox where run = old.run);
end;
