-- The newest jobs, or one.
select id, created_at, look_at, body, revision from jobs
where :id is null or id = :id
order by created_at desc, id desc
limit :limit
