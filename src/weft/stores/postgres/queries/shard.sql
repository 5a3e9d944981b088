-- The id of this database, its fence, and the shards that it knows.
select s.id, s.fence, o.shard, o.since, o.had_runs
from {schema}.weft_shard s
left join {schema}.weft_shards o on true
