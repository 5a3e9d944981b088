-- How many runs of one workflow there are, by version.
select r.version, count(*)
from {schema}.weft_runs r
where r.workflow = $1
group by r.version
