-- Runs with a key take turns: the keys of a queue share its workers, however many runs one of them has.  See docs/adr/0040.
-- `turn` orders the new runs that have a key; a claim removes it, so runs that come back are ordered by time.
alter table {schema}.weft_queue
    add column turn bigint,
    add column fair_key text collate "C";
drop index {schema}.weft_queue_free;
create index weft_queue_free on {schema}.weft_queue (queue, priority, scheduled_at) where owner is null and turn is null;
create index weft_queue_by_turn on {schema}.weft_queue (queue, priority, turn, run)
where owner is null and turn is not null;
create index weft_queue_by_key on {schema}.weft_queue (queue, priority, fair_key, turn)
where owner is null and turn is not null;
