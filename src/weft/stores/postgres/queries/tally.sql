-- How many runs there are, by workflow and status.
select r.workflow, r.status, count(*)
from {schema}.weft_runs r
group by r.workflow, r.status
