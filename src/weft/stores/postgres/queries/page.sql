-- A page of runs, newest first.
{record}
where ($1::text[] is null or r.status = any($1)) and ($2::text is null or r.workflow = $2)
  and ($3::boolean is null or (r.failures > 0) = $3) and ($4::double precision is null or r.created_at >= $4)
  and ($5::double precision is null or (r.created_at, r.id) < ($5, $6::text))
order by r.created_at desc, r.id desc
limit $7
