-- Vouchers, their sales, their orders, locks, jobs, and who did what. Times are milliseconds since the
-- Unix epoch, UTC. Once released, this file never changes: add the next number instead.
--
-- Numbers are BIGINT, small ones too: they are read as what the program has, without a cast. An order
-- id has 63 bits, so the sign is never touched.
--
-- Names compare byte by byte (COLLATE "C"), whatever the database's own collation is.

-- Redis keys carry the voucher's number; a sequence never gives one twice.
CREATE TABLE tb_voucher (
    id           BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    shop_id      BIGINT,
    title        TEXT   NOT NULL,
    sub_title    TEXT,
    rules        TEXT,
    pay_value    BIGINT NOT NULL DEFAULT 0,
    actual_value BIGINT NOT NULL DEFAULT 0,
    type         BIGINT NOT NULL DEFAULT 0 CHECK (type IN (0, 1)),      -- 0 ordinary, 1 flash sale
    status       BIGINT NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3)), -- 1 on, 2 off, 3 expired
    create_time  BIGINT NOT NULL,
    update_time  BIGINT NOT NULL
);

CREATE TABLE tb_seckill_voucher (
    voucher_id    BIGINT PRIMARY KEY REFERENCES tb_voucher (id),
    initial_stock BIGINT NOT NULL CHECK (initial_stock >= 0),
    stock         BIGINT NOT NULL CHECK (stock >= 0),
    begin_time    BIGINT,
    end_time      BIGINT,
    state         TEXT   NOT NULL CHECK (state IN ('running', 'paused', 'ended')),
    version       BIGINT NOT NULL DEFAULT 1,
    -- Orders that one user may hold; each takes a place of its own, from 1.
    user_limit    BIGINT NOT NULL DEFAULT 1 CHECK (user_limit BETWEEN 1 AND 20),
    create_time   BIGINT NOT NULL,
    update_time   BIGINT NOT NULL,
    -- When the ended sale left Redis; NULL while it is there.
    archive_time  BIGINT,
    CHECK (stock <= initial_stock)
)
-- Each batch of orders updates one row of this table: room beside it keeps the old versions near.
WITH (fillfactor = 50);

-- status: 1 unpaid, 2 paid, 3 used, 4 cancelled, 5 closed as overdue.
CREATE TABLE tb_voucher_order (
    id          BIGINT PRIMARY KEY,
    user_id     BIGINT NOT NULL,
    voucher_id  BIGINT NOT NULL REFERENCES tb_seckill_voucher (voucher_id),
    place       BIGINT NOT NULL DEFAULT 1 CHECK (place BETWEEN 1 AND 20),
    pay_type    BIGINT NOT NULL DEFAULT 1,
    status      BIGINT NOT NULL DEFAULT 1 CHECK (status BETWEEN 1 AND 5),
    create_time BIGINT NOT NULL,
    pay_time    BIGINT,
    use_time    BIGINT,
    refund_time BIGINT,
    close_time  BIGINT,
    update_time BIGINT NOT NULL
);

-- One live order a buyer, voucher and place; a closed one leaves the index, so the buyer may come again.
-- Also the way to the live orders of a user: vouchers are few.
CREATE UNIQUE INDEX uk_one_live_order ON tb_voucher_order (voucher_id, user_id, place)
    WHERE status NOT IN (4, 5);
-- Live orders by id, a page at a time.
CREATE INDEX idx_live_order ON tb_voucher_order (voucher_id, id) WHERE status NOT IN (4, 5);
-- Closed orders, by voucher and by user; live ones never touch these.
CREATE INDEX idx_closed_order ON tb_voucher_order (voucher_id, id) WHERE status IN (4, 5);
CREATE INDEX idx_closed_user ON tb_voucher_order (user_id, id) WHERE status IN (4, 5);
-- Unpaid orders by age: what the closing job reads, in pages.
CREATE INDEX idx_unpaid_order ON tb_voucher_order (create_time, id) WHERE status = 1;

-- Closed orders whose piece and place Redis is told of; kept a while after, in case Redis forgets.
CREATE TABLE tb_give_back (
    order_id   BIGINT PRIMARY KEY REFERENCES tb_voucher_order (id),
    user_id    BIGINT NOT NULL,
    voucher_id BIGINT NOT NULL,
    place      BIGINT NOT NULL DEFAULT 1,
    closed     BIGINT NOT NULL,
    given      BIGINT
);
CREATE INDEX idx_give_back_open ON tb_give_back (order_id) WHERE given IS NULL;
CREATE INDEX idx_give_back_given ON tb_give_back (given) WHERE given IS NOT NULL;
CREATE INDEX idx_give_back_voucher ON tb_give_back (voucher_id, order_id);

CREATE TABLE tb_audit_log (
    id       BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at       BIGINT NOT NULL,
    operator TEXT   NOT NULL,
    node     TEXT   NOT NULL,
    act      TEXT   NOT NULL,
    subject  TEXT   NOT NULL,
    reason   TEXT,
    result   TEXT   NOT NULL
);

-- The highest fencing token that has written under a lock's name; lower ones are refused.
CREATE TABLE tb_lock_fence (
    name        TEXT COLLATE "C" PRIMARY KEY,
    token       BIGINT NOT NULL,
    writes      BIGINT NOT NULL DEFAULT 0,
    update_time BIGINT NOT NULL
);

CREATE TABLE tb_job (
    name        TEXT COLLATE "C" PRIMARY KEY,
    paused      BOOLEAN NOT NULL DEFAULT FALSE,
    update_time BIGINT  NOT NULL
);

-- One row a due run; the unique index is what makes each of them happen on one node once.
CREATE TABLE tb_job_run (
    id      BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    job     TEXT COLLATE "C" NOT NULL,
    due     BIGINT NOT NULL,
    cause   TEXT   NOT NULL CHECK (cause IN ('due', 'missed', 'operator')),
    node    TEXT   NOT NULL,
    token   BIGINT NOT NULL,
    started BIGINT NOT NULL,
    took_ms BIGINT,
    outcome TEXT   NOT NULL DEFAULT 'running'
            CHECK (outcome IN ('running', 'done', 'failed', 'cancelled', 'lost')),
    detail  TEXT,
    rows    BIGINT
);
CREATE UNIQUE INDEX uk_job_due ON tb_job_run (job, due);

-- What every node has to agree on.
CREATE TABLE tb_setting (
    name  TEXT COLLATE "C" PRIMARY KEY,
    value TEXT NOT NULL
);
