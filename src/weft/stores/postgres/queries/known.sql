-- A part of `claim`: whether a process that knows the workflows $3 in the versions $4 can do something with a run.
(
    exists (
        select from unnest($3::text[], $4::text[]) as k (workflow, version)
        where k.workflow = r.workflow and r.version in (k.version, '')
    )
    and (r.status <> 'parked' or exists (
        select from {schema}.weft_inbox i where i.run = r.key and i.kind in ('cancel', 'retry', 'discard')
    ))
)
