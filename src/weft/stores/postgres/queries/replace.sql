-- Put another record in place of the one of a run that is locked; its log and its snapshot are deleted.
with removed as (
    delete from {schema}.weft_events where run = $1::bigint
), forgotten as (
    delete from {schema}.weft_snapshots where run = $1
), moved as (
    update {schema}.weft_queue q
    set program = {program}
    from (select $2::text as workflow, $3::text as version) r
    where q.run = $1
)
update {schema}.weft_runs
set workflow = $2, version = $3, status = $4, reason = $5, failures = $6, dead_letters = $7, outcome = $8, head = $9,
    chain = $10, first = 1, link = '', updated_at = $11, finished_at = $12
where key = $1
