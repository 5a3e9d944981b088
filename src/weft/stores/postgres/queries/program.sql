-- A part of other statements: a number for the workflow and the version of a run.  Two of them may have the same one.
('x' || left(md5(r.workflow || chr(10) || r.version), 8))::bit(32)::integer
