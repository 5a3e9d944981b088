-- A part of other statements: whether a run has no owner, or one that was closed or whose lease has expired.
(q.owner is null or w.ended_at is not null or w.expires_at <= statement_timestamp())
