-- Fences of locks, scheduled jobs and their runs, and stock that goes back to Redis.

-- The highest fencing token that has written under a lock's name; lower ones are refused.
CREATE TABLE tb_lock_fence (
    name        TEXT    PRIMARY KEY,
    token       INTEGER NOT NULL,
    writes      INTEGER NOT NULL DEFAULT 0,
    update_time INTEGER NOT NULL
) STRICT;

CREATE TABLE tb_job (
    name        TEXT    PRIMARY KEY,
    paused      INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    update_time INTEGER NOT NULL
) STRICT;

-- One row a due run; the unique index is what makes each of them happen on one node once.
CREATE TABLE tb_job_run (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    job      TEXT    NOT NULL,
    due      INTEGER NOT NULL,
    cause    TEXT    NOT NULL CHECK (cause IN ('due', 'missed', 'operator')),
    node     TEXT    NOT NULL,
    token    INTEGER NOT NULL,
    started  INTEGER NOT NULL,
    took_ms  INTEGER,
    outcome  TEXT    NOT NULL DEFAULT 'running'
             CHECK (outcome IN ('running', 'done', 'failed', 'cancelled', 'lost')),
    detail   TEXT,
    rows     INTEGER
) STRICT;
CREATE UNIQUE INDEX uk_job_due ON tb_job_run (job, due);

-- Closed orders whose piece and place Redis is told of; kept a while after, in case Redis forgets.
CREATE TABLE tb_give_back (
    order_id   INTEGER PRIMARY KEY REFERENCES tb_voucher_order (id),
    user_id    INTEGER NOT NULL,
    voucher_id INTEGER NOT NULL,
    closed     INTEGER NOT NULL,
    given      INTEGER
) STRICT;
CREATE INDEX idx_give_back_open ON tb_give_back (order_id) WHERE given IS NULL;
CREATE INDEX idx_give_back_given ON tb_give_back (given) WHERE given IS NOT NULL;

-- Unpaid orders by age: what the closing job reads, in pages.
CREATE INDEX idx_unpaid_order ON tb_voucher_order (create_time, id) WHERE status = 1;
