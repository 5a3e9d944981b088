-- How many runs are in one status.
select count(*) from runs r
where r.status = :status
