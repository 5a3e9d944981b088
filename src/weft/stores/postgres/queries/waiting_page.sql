-- A page of the waiting runs, by when they are woken.
{record}
where r.status = 'waiting' and ($1::text is null or r.workflow = $1)
  and ($2::double precision is null or r.created_at >= $2) and ($3::double precision is null or r.created_at < $3)
  and ($4::double precision is null
       or (coalesce(r.wake_at, 'infinity'), r.created_at, r.id) > ($4, $5::double precision, $6::text))
order by coalesce(r.wake_at, 'infinity'), r.created_at, r.id
limit $7
