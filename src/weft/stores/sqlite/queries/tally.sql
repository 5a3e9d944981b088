-- How many runs there are, by workflow and status, those with failures apart: in the order of the index.
select workflow, status, count(*) from runs group by status, failures is not 0, workflow
