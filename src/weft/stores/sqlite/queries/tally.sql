-- How many runs there are, by workflow and status.
select workflow, status, count(*) from runs group by workflow, status
