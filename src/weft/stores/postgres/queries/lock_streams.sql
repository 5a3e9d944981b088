-- Lock streams, before it is looked which chunks are stored: a statement that is still running ends first.
insert into {schema}.weft_streams as s (run, name, items)
select distinct r.key, g.stream, 0
from unnest($1::text[], $2::text[]) as g (run, stream)
join {schema}.weft_runs r on r.id = g.run
order by r.key, g.stream
on conflict (run, name) do update set items = s.items
