-- How many runs of one workflow there are, by version: one walk through a part of an index.
select version, count(*) from runs where workflow = ? group by version
