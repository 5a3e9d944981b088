-- Who has taken which run, if that has not been closed; whether it is alive is not known here.
select r.id, s.token, s.pid, s.host
from runs r join sessions s on s.key = r.owner
where :run is null or r.id = :run
