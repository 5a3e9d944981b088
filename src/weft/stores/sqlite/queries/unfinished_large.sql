-- How many large values are to be removed: nobody is writing them, and no run has them.
select count(*) from large where session is not null and session not in (select key from sessions)
