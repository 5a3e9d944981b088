-- For `weft doctor`: rows of other tables whose run does not exist, by table.
select 'weft_queue', count(*) from {schema}.weft_queue s where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_events', count(*) from {schema}.weft_events s where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_facts', count(*) from {schema}.weft_facts s where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_inbox', count(*) from {schema}.weft_inbox s where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_snapshots', count(*) from {schema}.weft_snapshots s where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_streams', count(*) from {schema}.weft_streams s where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_chunks', count(*) from {schema}.weft_chunks s where not exists (select from {schema}.weft_runs r where r.key = s.run)
union all
select 'weft_progress', count(*) from {schema}.weft_progress s where not exists (select from {schema}.weft_runs r where r.key = s.run)
