-- A part of other statements: whether all messages of a run are known to this statement, and a parked run takes none.
(
    q.wake = (select count(*) from {schema}.weft_inbox i where i.run = q.run)
    and not exists (
        select from {schema}.weft_inbox i where i.run = q.run and i.kind in ('cancel', 'retry', 'discard')
    )
)
