-- How many runs in one status, with failures or without, were created in each period of :width seconds.
select cast((r.created_at - :since) / :width as integer) as period, count(*)
from runs r
where r.status = :status and (r.failures is not 0) = :failed
group by period
