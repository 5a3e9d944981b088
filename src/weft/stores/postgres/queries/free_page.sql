-- A page of runs without a living owner, oldest first.
{record}
where r.status = any($1::text[]) and {free}
  and ($2::double precision is null or (r.created_at, r.id) > ($2, $3::text))
order by r.created_at, r.id
limit $4
