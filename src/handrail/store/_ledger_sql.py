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
    expires REAL NOT NULL,
    seq INTEGER,                    -- counts requests: what was asked last, whatever the clock says
    seal TEXT,                      -- random; goes into the digest that only `approvals show` prints
    bytes INTEGER NOT NULL DEFAULT 0    -- what the request takes on the disk
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
    given_at REAL NOT NULL,
    seq INTEGER
);
CREATE INDEX grants_by_digest ON grants (digest);
CREATE INDEX grants_by_run ON grants (run_id);
CREATE INDEX grants_by_workspace ON grants (workspace, scope);
"""
# Large texts are stored once, however many requests, arguments and diffs hold them.
_TABLES_2 = """
CREATE TABLE texts (sha256 TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE parts (
    request TEXT NOT NULL REFERENCES requests (id),
    part TEXT NOT NULL,             -- 'body' or 'args': the column that the text was taken out of
    path TEXT NOT NULL,             -- keys and indexes that lead to it, as JSON
    sha256 TEXT,                    -- NULL: not kept any more
    length INTEGER NOT NULL         -- in characters
);
CREATE INDEX parts_by_request ON parts (request, part);
CREATE INDEX parts_by_part ON parts (part);
CREATE INDEX parts_by_text ON parts (sha256);
CREATE TABLE askers (
    request TEXT NOT NULL REFERENCES requests (id),
    run_id TEXT NOT NULL,           -- a run that asked for it (equal calls of several runs share a request)
    PRIMARY KEY (request, run_id)
) WITHOUT ROWID;
CREATE INDEX askers_by_run ON askers (run_id);
"""
# Calls that others may make on their caller's behalf, or wait for.
EXECUTIONS = """
CREATE TABLE executions (
    request TEXT PRIMARY KEY REFERENCES requests (id),
    likeness TEXT NOT NULL,         -- of caller, workspace, tool, version and arguments: no file
    opening TEXT,                   -- how its run was opened, as JSON: NULL where nobody else can make the call
    parked INTEGER NOT NULL DEFAULT 0,  -- its call has ended as pending, or its process died
    state TEXT NOT NULL DEFAULT ''
        CHECK (state IN ('', 'withdrawn', 'running', 'done', 'unknown', 'fetched')),
    runner TEXT,                    -- who makes it, as JSON
    outcome TEXT,                   -- as JSON, redacted
    changed REAL NOT NULL           -- when its state did
) WITHOUT ROWID;
CREATE INDEX executions_by_likeness ON executions (likeness);
CREATE INDEX executions_by_state ON executions (state);
"""
_TABLES_2 += EXECUTIONS
TABLES += _TABLES_2
# A ledger of 0.1.0: requests and grants stay, in the order in which they were written. No semicolon but between
# statements: they are run one by one.
FROM_1 = f"""
ALTER TABLE requests ADD COLUMN seq INTEGER;
ALTER TABLE requests ADD COLUMN seal TEXT;
ALTER TABLE requests ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN seq INTEGER;
{_TABLES_2}
UPDATE requests SET seq = rowid, seal = lower(hex(randomblob(16))), bytes = length(body) + coalesce(length(args), 0);
UPDATE grants SET seq = rowid;
INSERT INTO askers SELECT id, json_extract(body, '$.run_id') FROM requests WHERE state = 'pending';
PRAGMA user_version = 2;
"""

_LIVE = "NOT revoked AND grants.expires > :now AND (uses_left IS NULL OR uses_left > 0)"
_REQUESTS = f"SELECT {REQUEST_COLUMNS} FROM requests"
_GRANTS = f"SELECT {GRANT_COLUMNS} FROM grants"

ADD_REQUEST = """
INSERT INTO requests (id, digest, state, body, args, created, expires, seal, bytes, seq)
VALUES (:id, :digest, 'pending', :body, :args, :created, :expires, :seal, :bytes,
    (SELECT coalesce(max(seq), 0) + 1 FROM requests))
"""
ADD_TEXT = "INSERT OR IGNORE INTO texts (sha256, text) VALUES (:sha256, :text)"
ADD_PART = "INSERT INTO parts (request, part, path, sha256, length) VALUES (:request, :part, :path, :sha256, :length)"
PARTS = """
SELECT path, text, length FROM parts LEFT JOIN texts USING (sha256) WHERE request = :request AND part = :part
"""
ADD_ASKER = "INSERT OR IGNORE INTO askers (request, run_id) VALUES (:request, :run_id)"
WAITING = """
SELECT count(*), coalesce(sum(bytes), 0) FROM requests JOIN askers ON request = id
WHERE askers.run_id = :run_id AND state = 'pending'
"""
# A request that another run asked for, too, goes on waiting.
LEAVE = """
DELETE FROM askers WHERE run_id = :run_id AND request IN (SELECT id FROM requests WHERE state = 'pending')
AND NOT (:keep_parked AND request IN (SELECT request FROM executions WHERE parked))
"""
END_LEFT = """
UPDATE requests SET state = 'expired', args = NULL, reply = :reply
WHERE state = 'pending' AND NOT EXISTS (SELECT 1 FROM askers WHERE request = requests.id)
"""
# Arguments of closed requests, the large texts of expired ones, then what nothing refers to any more.
ERASE = (
    """
DELETE FROM parts WHERE part = 'args'
AND request NOT IN (SELECT id FROM requests WHERE state IN ('pending', 'granted') OR args IS NOT NULL)
""",
    """
UPDATE parts SET sha256 = NULL WHERE part = 'body' AND sha256 IS NOT NULL
AND request IN (SELECT id FROM requests WHERE state = 'expired')
""",
    "DELETE FROM texts WHERE NOT EXISTS (SELECT 1 FROM parts WHERE parts.sha256 = texts.sha256)",
)
# Only a granted call can still be replayed, or one that was claimed and not begun; of all others the arguments go.
_RUNNING = "SELECT request FROM executions WHERE state = 'running'"
MOVE = f"""
UPDATE requests SET state = :new, reply = coalesce(:reply, reply),
    args = CASE WHEN :new = 'granted' OR id IN ({_RUNNING}) THEN args END
WHERE id = :id AND state = :old
"""
ERASE_USED = "UPDATE requests SET args = NULL WHERE id = :id AND state = 'used' AND args IS NOT NULL"
ERASE_LATE = f"""
UPDATE requests SET args = NULL WHERE state = 'used' AND args IS NOT NULL
AND NOT EXISTS ({_RUNNING} AND request = requests.id AND changed > :now - 86400)
"""
EXPIRE = f"""
UPDATE requests SET state = 'expired', args = NULL
WHERE (state = 'pending' AND expires <= :now)
   OR (state = 'granted' AND NOT EXISTS (SELECT 1 FROM grants WHERE request = requests.id AND {_LIVE}))
"""
REQUEST = f"{_REQUESTS} WHERE id = :id"
OPEN_REQUEST = f"{_REQUESTS} WHERE digest = :digest AND state IN ('pending', 'granted') ORDER BY seq"
PENDING = f"{_REQUESTS} WHERE state = 'pending' AND expires > :now ORDER BY seq"
NEWEST = f"{_REQUESTS} WHERE state IN ({{states}}) ORDER BY seq DESC LIMIT :limit"
COUNT_PENDING = "SELECT count(*) FROM requests WHERE state = 'pending' AND expires > :now"
GRANTED_REQUESTS = f"{_REQUESTS} WHERE state = 'granted' ORDER BY seq"
ALL_REQUESTS = f"{_REQUESTS} ORDER BY seq"
ARGS = "SELECT args FROM requests WHERE id = :id AND args IS NOT NULL"
SEAL = "SELECT seal FROM requests WHERE id = :id"

ADD_GRANT = """
INSERT INTO grants (id, request, digest, scope, tool, touches,
    run_id, workspace, expires, uses_left, given_by, given_at, seq)
VALUES (:id, :request, :digest, :scope, :tool, :touches,
    :run_id, :workspace, :expires, :uses_left, :given_by, :given_at,
    (SELECT coalesce(max(seq), 0) + 1 FROM grants))
"""
GRANT_NAMED = "SELECT id, request FROM grants WHERE :id IN (id, request)"
GRANTED = f"""
{_GRANTS} WHERE request IN (SELECT id FROM requests WHERE digest = :digest AND state = 'granted') AND {_LIVE}
"""
GRANTS_OF_RUN = f"""
{_GRANTS} WHERE {_LIVE} AND (
    (scope = :run AND run_id = :run_id AND :workspace IN ('', workspace))
    OR (scope IN (:session, :always) AND workspace = :workspace AND workspace != '')
) ORDER BY seq
"""
STANDING = f"{_GRANTS} WHERE {_LIVE} AND scope = :always ORDER BY seq"
# NULL - 1 is NULL: where uses are not counted there is nothing to count down.
USE = f"UPDATE grants SET uses_left = uses_left - 1 WHERE id = :id AND {_LIVE}"
USES_LEFT = "SELECT uses_left FROM grants WHERE id = :id"
IN_USE = f"""
{_GRANTS} WHERE id = :id AND uses_left IS NULL AND {_LIVE}
AND request IN (SELECT id FROM requests WHERE state = 'used')
"""
REVOKE = f"UPDATE grants SET revoked = 1 WHERE id = :id AND {_LIVE}"
VERSION = "PRAGMA data_version"

_EXECUTIONS = """
SELECT executions.request, likeness, opening, parked, executions.state, runner, outcome, changed, requests.state
FROM executions JOIN requests ON requests.id = executions.request
"""
EXECUTION = f"{_EXECUTIONS} WHERE executions.request = :request"
# Newest first: a call may have been asked for again since.
EXECUTIONS_ALIKE = f"""
{_EXECUTIONS} WHERE likeness = :likeness AND parked AND executions.state IN ('running', 'done', 'unknown')
ORDER BY requests.seq DESC
"""
EXECUTIONS_IN = f"{_EXECUTIONS} WHERE executions.state = :state ORDER BY requests.seq"
EXECUTIONS_GRANTED = f"{_EXECUTIONS} WHERE executions.state = '' AND requests.state = 'granted' ORDER BY requests.seq"
ADD_EXECUTION = """
INSERT INTO executions (request, likeness, opening, changed) VALUES (:request, :likeness, :opening, :now)
ON CONFLICT (request) DO UPDATE SET state = '', changed = :now WHERE state = 'withdrawn'
"""
PARK = "UPDATE executions SET parked = 1 WHERE request = :request AND state = ''"
TO_STATE = """
UPDATE executions SET state = :new, runner = coalesce(:runner, runner), outcome = coalesce(:outcome, outcome),
    changed = :now
WHERE request = :request AND state = :old
"""
# What was claimed and not begun: the request is granted again, for the use that was taken.
RELEASE = (
    "UPDATE executions SET state = '', runner = NULL, changed = :now WHERE request = :request AND state = 'running'",
    "UPDATE grants SET uses_left = uses_left + 1 WHERE request = :request",
    "UPDATE requests SET state = 'granted' WHERE id = :request AND state = 'used' AND args IS NOT NULL",
)
FORGET_OUTCOMES = "UPDATE executions SET outcome = NULL WHERE outcome IS NOT NULL AND changed < :before"
REVOKE_OF = "UPDATE grants SET revoked = 1 WHERE request = :request"
CLOSE_GRANTED = "UPDATE requests SET state = 'used' WHERE id = :id AND state = 'granted'"
