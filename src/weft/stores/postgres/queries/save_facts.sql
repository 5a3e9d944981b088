-- Large values of a run; those that are there stay.  Returns whether the run exists.
with known as (
    select key from {schema}.weft_runs where id = $1 for key share
), kept as (
    insert into {schema}.weft_facts (run, hash, body)
    select k.key, g.hash, g.body
    from known k, unnest($2::bytea[], $3::bytea[]) as g (hash, body)
    order by g.hash
    on conflict do nothing
)
select exists (select from known)
