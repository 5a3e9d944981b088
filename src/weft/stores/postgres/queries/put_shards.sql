insert into {schema}.weft_shards (shard, since, had_runs)
select * from unnest($1::text[], $2::integer[], $3::boolean[])
on conflict (shard) do nothing
