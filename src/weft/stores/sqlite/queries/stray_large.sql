-- Large values that count as whole, and that no run has; a look at every fact, without its body.
select key from large where session is null and key not in (select large from facts where large is not null) limit ?
