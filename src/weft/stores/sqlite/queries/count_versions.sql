-- How many runs of one workflow there are, by version.  An index of its own would cost each new run more than it saves: the
-- dashboard asks once a minute of very many.
select version, count(*) from runs where workflow = ? group by version
