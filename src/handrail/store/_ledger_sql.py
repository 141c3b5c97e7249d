"""Every statement of the ledger. Values are always bound; only constants of this file are put together."""
# ruff: noqa: S608

from __future__ import annotations

from handrail.store._ledger_rows import GRANT_COLUMNS, REQUEST_COLUMNS

TABLES = """
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
"""

_LIVE = "NOT revoked AND grants.expires > :now AND (uses_left IS NULL OR uses_left > 0)"
_REQUESTS = f"SELECT {REQUEST_COLUMNS} FROM requests"
_GRANTS = f"SELECT {GRANT_COLUMNS} FROM grants"

ADD_REQUEST = """
INSERT INTO requests (id, digest, state, body, args, created, expires)
VALUES (:id, :digest, 'pending', :body, :args, :created, :expires)
"""
# Only a granted call can still be replayed; whatever else a request turns into, its arguments go.
MOVE = """
UPDATE requests SET state = :new, reply = coalesce(:reply, reply), args = CASE :new WHEN 'granted' THEN args END
WHERE id = :id AND state = :old
"""
EXPIRE = f"""
UPDATE requests SET state = 'expired', args = NULL
WHERE (state = 'pending' AND expires <= :now)
   OR (state = 'granted' AND NOT EXISTS (SELECT 1 FROM grants WHERE request = requests.id AND {_LIVE}))
"""
REQUEST = f"{_REQUESTS} WHERE id = :id"
OPEN_REQUEST = f"{_REQUESTS} WHERE digest = :digest AND state IN ('pending', 'granted') ORDER BY created"
PENDING = f"{_REQUESTS} WHERE state = 'pending' AND expires > :now ORDER BY created, id"
ALL_REQUESTS = f"{_REQUESTS} ORDER BY created, id"
ARGS = "SELECT args FROM requests WHERE id = :id AND args IS NOT NULL"

ADD_GRANT = """
INSERT INTO grants (id, request, digest, scope, tool, touches,
    run_id, workspace, expires, uses_left, given_by, given_at)
VALUES (:id, :request, :digest, :scope, :tool, :touches,
    :run_id, :workspace, :expires, :uses_left, :given_by, :given_at)
"""
GRANT_NAMED = "SELECT id, request FROM grants WHERE :id IN (id, request)"
GRANTED = f"""
{_GRANTS} WHERE request IN (SELECT id FROM requests WHERE digest = :digest AND state = 'granted') AND {_LIVE}
"""
GRANTS_OF_RUN = f"""
{_GRANTS} WHERE {_LIVE} AND (
    (scope = :run AND run_id = :run_id AND :workspace IN ('', workspace))
    OR (scope = :session AND workspace = :workspace AND workspace != '')
) ORDER BY given_at, id
"""
# NULL - 1 is NULL: where uses are not counted there is nothing to count down.
USE = f"UPDATE grants SET uses_left = uses_left - 1 WHERE id = :id AND {_LIVE}"
IN_USE = f"""
{_GRANTS} WHERE id = :id AND uses_left IS NULL AND {_LIVE}
AND request IN (SELECT id FROM requests WHERE state = 'used')
"""
REVOKE = f"UPDATE grants SET revoked = 1 WHERE id = :id AND {_LIVE}"
VERSION = "PRAGMA data_version"
