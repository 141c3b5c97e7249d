"""Tables and statements of the inbox. Values are always bound; only constants of this file are put together."""
# ruff: noqa: S608

from __future__ import annotations

VERSION = 1
TABLES = """
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'waiting', 'done', 'failed', 'cancelled')),
    text TEXT NOT NULL,
    workspace TEXT NOT NULL,
    run_id TEXT NOT NULL,
    queue TEXT NOT NULL DEFAULT '',
    lane TEXT NOT NULL DEFAULT 'worker',
    options TEXT NOT NULL DEFAULT '{}',
    origin TEXT NOT NULL DEFAULT '{}',
    created REAL NOT NULL,
    updated REAL NOT NULL,
    epoch INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '',
    waits TEXT NOT NULL DEFAULT '{}',
    cancelling INTEGER NOT NULL DEFAULT 0,
    answer TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '',
    summary TEXT NOT NULL DEFAULT '{}',
    key TEXT UNIQUE                     -- given by who sent it: the same one gives the same task
);
CREATE INDEX tasks_by_state ON tasks (state, lane, seq);
CREATE INDEX tasks_by_run ON tasks (run_id);
CREATE TABLE questions (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL REFERENCES tasks (id),
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    choices TEXT NOT NULL DEFAULT '[]',
    turn INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0,
    answer TEXT,
    by TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX questions_by_task ON questions (task);
CREATE TABLE messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    task TEXT NOT NULL REFERENCES tasks (id),
    text TEXT NOT NULL,
    by TEXT NOT NULL,
    created REAL NOT NULL,
    key TEXT UNIQUE
);
CREATE INDEX messages_by_task ON messages (task, seq);
CREATE TABLE notices (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    task TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    created REAL NOT NULL
);
CREATE TABLE marks (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

TASK_COLUMNS = (
    "id, state, text, workspace, run_id, queue, lane, options, origin, created, updated, epoch, owner, waits, "
    "cancelling, answer, reason, summary"
)
_TASKS = f"SELECT {TASK_COLUMNS} FROM tasks"
TASK = f"{_TASKS} WHERE id = :id"
TASK_BY_KEY = f"{_TASKS} WHERE key = :key"
TASKS_BY_RUN = f"{_TASKS} WHERE run_id = :run_id ORDER BY seq DESC"
TASKS_BY_PREFIX = f"{_TASKS} WHERE id LIKE :prefix ESCAPE '!' ORDER BY seq LIMIT 3"
ALL_TASKS = f"{_TASKS} ORDER BY seq"
IN_STATE = f"{_TASKS} WHERE state = :state ORDER BY seq"
QUEUED = f"{_TASKS} WHERE state = 'queued' AND lane = 'worker' ORDER BY seq"
HELD = f"{_TASKS} WHERE state = 'running' AND lane = 'worker' ORDER BY seq"
ADD_TASK = """
INSERT INTO tasks (id, state, text, workspace, run_id, queue, lane, options, origin, created, updated, key)
VALUES (:id, 'queued', :text, :workspace, :run_id, :queue, :lane, :options, :origin, :now, :now, :key)
"""
# Every move is a compare-and-set on the epoch, which only taking a task raises.
CLAIM = """
UPDATE tasks SET state = 'running', owner = :owner, epoch = epoch + 1, waits = '{}', updated = :now
WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'running')
"""
WAIT = """
UPDATE tasks SET state = 'waiting', waits = :waits, owner = '', updated = :now
WHERE id = :id AND epoch = :epoch AND state = 'running'
"""
FINISH = """
UPDATE tasks SET state = :state, answer = :answer, reason = :reason, summary = :summary, owner = '', waits = '{}',
    updated = :now, cancelling = 0
WHERE id = :id AND epoch = :epoch AND state = 'running'
"""
REQUEUE = "UPDATE tasks SET state = 'queued', owner = '', updated = :now WHERE id = :id AND epoch = :epoch"
REQUEUE += " AND state = 'running'"
SIGNAL = "UPDATE tasks SET state = 'queued', updated = :now WHERE id = :id AND state = 'waiting'"
CANCEL = """
UPDATE tasks SET state = 'cancelled', reason = 'cancelled', answer = :answer, waits = '{}', updated = :now
WHERE id = :id AND state IN ('queued', 'waiting')
"""
ASK_TO_CANCEL = "UPDATE tasks SET cancelling = 1, updated = :now WHERE id = :id AND state = 'running'"
RESUME = """
UPDATE tasks SET state = 'queued', lane = :lane, waits = '{}', cancelling = 0, updated = :now
WHERE id = :id AND (state IN ('failed', 'cancelled') OR (state = 'waiting' AND lane != :lane))
"""
SET_OPTIONS = "UPDATE tasks SET options = :options WHERE id = :id"
CANCELLING = "SELECT id FROM tasks WHERE cancelling = 1 AND state = 'running'"

QUESTION_COLUMNS = "id, task, kind, text, choices, turn, place, answer, by, created"
_QUESTIONS = f"SELECT {QUESTION_COLUMNS} FROM questions"
QUESTION = f"{_QUESTIONS} WHERE id = :id"
QUESTIONS_OF_TASK = f"{_QUESTIONS} WHERE task = :task ORDER BY created, id"
OPEN_QUESTIONS = f"{_QUESTIONS} WHERE answer IS NULL ORDER BY created, id"
ADD_QUESTION = """
INSERT OR IGNORE INTO questions (id, task, kind, text, choices, turn, place, created)
VALUES (:id, :task, :kind, :text, :choices, :turn, :place, :now)
"""
ANSWER = "UPDATE questions SET answer = :answer, by = :by WHERE id = :id AND answer IS NULL"

MESSAGE_COLUMNS = "seq, task, text, by, created"
MESSAGES = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE task = :task AND seq > :after ORDER BY seq"
ADD_MESSAGE = """
INSERT OR IGNORE INTO messages (task, text, by, created, key) VALUES (:task, :text, :by, :now, :key)
"""

ADD_NOTICE = "INSERT INTO notices (task, kind, body, created) VALUES (:task, :kind, :body, :now)"
NOTICES = "SELECT seq, task, kind, body, created FROM notices WHERE seq > :after ORDER BY seq LIMIT :limit"
LAST_NOTICE = "SELECT coalesce(max(seq), 0) FROM notices"
FORGET_NOTICES = "DELETE FROM notices WHERE seq <= (SELECT max(seq) FROM notices) - :most"
MARK = "SELECT value FROM marks WHERE name = :name"
SET_MARK = "INSERT INTO marks (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value"
DATA_VERSION = "PRAGMA data_version"
