-- When the next deadline that was not told will be in danger, after the time $1.
select min(d.danger_at) from {schema}.weft_deadlines d where not d.told and d.danger_at > $1
