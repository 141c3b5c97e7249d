-- A ledger as handrail 0.1.0 wrote it: two requests that wait, one granted for its run.
CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'granted', 'denied', 'expired', 'used')),
    body TEXT NOT NULL,             -- the request as JSON, values redacted
    args TEXT,                      -- raw arguments as JSON, erased once they cannot be replayed any more
    reply TEXT,                     -- the answer as JSON
    created REAL NOT NULL,
    expires REAL NOT NULL
);
CREATE UNIQUE INDEX one_open_request_a_digest ON requests (digest) WHERE state = 'pending';
CREATE INDEX requests_by_digest ON requests (digest);
CREATE INDEX requests_by_state ON requests (state, expires);
CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    request TEXT NOT NULL UNIQUE REFERENCES requests (id),
    digest TEXT NOT NULL,
    scope INTEGER NOT NULL,
    tool TEXT NOT NULL,
    touches TEXT NOT NULL,          -- (kind, target) pairs as JSON
    run_id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    expires REAL NOT NULL,
    uses_left INTEGER CHECK (uses_left >= 0),
    revoked INTEGER NOT NULL DEFAULT 0,
    given_by TEXT NOT NULL,
    given_at REAL NOT NULL
);
CREATE INDEX grants_by_digest ON grants (digest);
CREATE INDEX grants_by_run ON grants (run_id);
CREATE INDEX grants_by_workspace ON grants (workspace, scope);
INSERT INTO requests (id, digest, state, body, args, reply, created, expires) VALUES ('apr_first', 'f1', 'pending', '{"id": "apr_first", "tool": "write_file", "version": "1.0.0", "risk": "high", "reason": "defaults.replace", "params": {"path": "a.txt"}, "impact": {"writes": ["a.txt"]}, "digest": "f1", "policy_digest": "p1", "created": 1700000000.0, "expires": 1700000900.0, "run_id": "run-1", "call_id": "c1", "workspace": "/home/a", "caller": "cli", "max_scope": "session", "touches": [["fs.write", "a.txt"]], "diff": "", "replay": {"command": "handrail call --approval apr_first", "request": {"tool": "write_file", "approval": "apr_first"}}, "reviews": ""}', '{"path": "a.txt", "token": "raw"}', NULL, 1700000000.0, 1700000900.0);
INSERT INTO requests (id, digest, state, body, args, reply, created, expires) VALUES ('apr_second', 'f2', 'pending', '{"id": "apr_second", "tool": "write_file", "version": "1.0.0", "risk": "high", "reason": "defaults.replace", "params": {"path": "a.txt"}, "impact": {"writes": ["a.txt"]}, "digest": "f2", "policy_digest": "p1", "created": 1699999940.0, "expires": 1700000840.0, "run_id": "run-1", "call_id": "c1", "workspace": "/home/a", "caller": "cli", "max_scope": "session", "touches": [["fs.write", "a.txt"]], "diff": "", "replay": {"command": "handrail call --approval apr_second", "request": {"tool": "write_file", "approval": "apr_second"}}, "reviews": ""}', '{}', NULL, 1699999940.0, 1700000840.0);
INSERT INTO requests (id, digest, state, body, args, reply, created, expires) VALUES ('apr_granted', 'f3', 'granted', '{"id": "apr_granted", "tool": "write_file", "version": "1.0.0", "risk": "high", "reason": "defaults.replace", "params": {"path": "a.txt"}, "impact": {"writes": ["a.txt"]}, "digest": "f3", "policy_digest": "p1", "created": 1700000000.0, "expires": 1700000900.0, "run_id": "run-1", "call_id": "c1", "workspace": "/home/a", "caller": "cli", "max_scope": "session", "touches": [["fs.write", "a.txt"]], "diff": "", "replay": {"command": "handrail call --approval apr_granted", "request": {"tool": "write_file", "approval": "apr_granted"}}, "reviews": ""}', '{}', '{"state": "granted", "scope": "run", "by": "ann", "advice": "", "uses": null, "expires": null, "patterns": null, "at": 1700000000.0}', 1700000000.0, 1700000900.0);
INSERT INTO grants (id, request, digest, scope, tool, touches, run_id, workspace, expires, uses_left, given_by, given_at) VALUES ('grant_first', 'apr_granted', 'f3', 2, 'write_file', '[["fs.write", "a.txt"]]', 'run-1', '/home/a', 1700028800.0, NULL, 'ann', 1700000000.0);
PRAGMA user_version = 1;
