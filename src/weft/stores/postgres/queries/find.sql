-- The records of these runs.
{record}
where r.id = any($1::text[])
