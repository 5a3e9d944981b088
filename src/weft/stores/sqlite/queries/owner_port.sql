-- Where the owner of a run hears of messages: its session, and the port that this one listens at.
select s.key, s.port from runs r join sessions s on s.key = r.owner where r.id = ?
