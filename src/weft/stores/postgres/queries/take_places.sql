-- Take places of a concurrency limit for $7 seconds, or give some back.  $3 is the limit, $4 how many are in use, $5 how
-- many are wanted with those, and $6 how many are asked for.  Returns how many the owner $2 has now, and how many it
-- should have while others want more than they have: an even share, or all.  What is left over after an even division
-- goes to those that ask, one each, unless an owner has less than its share; if there are fewer places than owners, they
-- take turns.
-- The row of the limit is locked first; a statement of its own, so that this one sees what those before it have written.
with others as (
    select coalesce(sum(places), 0)::integer as places, count(*) filter (where wanted > 0)::integer as owners,
           coalesce(bool_or(wanted > places), false) as is_short
    from {schema}.weft_limit_places
    where name = $1 and owner <> $2 and expires_at > clock_timestamp()
), even as (
    select $3::integer / (o.owners + 1) as fewest, ($3 + o.owners) / (o.owners + 1) as most from others o
), kept as (
    select coalesce(sum(greatest(p.places, least(p.wanted, e.fewest))), 0)::integer as places
    from {schema}.weft_limit_places p
    cross join even e
    where p.name = $1 and p.owner <> $2 and p.expires_at > clock_timestamp()
), over as (
    delete from {schema}.weft_limit_places
    where name = $1 and owner <> $2 and expires_at <= clock_timestamp()
), granted as (
    select greatest($4::integer, least($6::integer, $3 - o.places, greatest(1, s.share))) as places, s.share
    from others o
    cross join even e
    cross join kept k
    cross join lateral (
        select case when not o.is_short then $3
                    when e.fewest = 0 then 0
                    else greatest(e.fewest, least(e.most, $3 - k.places)) end as share
    ) s
), written as (
    insert into {schema}.weft_limit_places (name, owner, places, used, wanted, expires_at)
    select $1, $2, g.places, $4, $5::integer, clock_timestamp() + $7::double precision * interval '1 second'
    from granted g
    on conflict (name, owner) do update
    set places = excluded.places, used = excluded.used, wanted = excluded.wanted, expires_at = excluded.expires_at
)
select places, share from granted
