-- An order of a sale over shards belongs to the voucher that was sold; a shard has a stock of its own, and nothing else.
-- Before, each shard was a voucher and a sale of its own, with an ID that followed that of the voucher.

-- In a sale over shards, `stock` and `delivered_version` are NULL: each shard has its own, in `tb_shard_stock`.
-- `initial_stock` is the sum of its shards, `version` counts the changes of the sale itself. SQLite changes no
-- constraint of a column without a copy of all orders, which refer to this table; nothing on disk changes here.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(replace(sql,
    'stock         INTEGER NOT NULL CHECK (stock >= 0)', 'stock         INTEGER CHECK (stock >= 0)'),
    'delivered_version INTEGER NOT NULL DEFAULT 0', 'delivered_version INTEGER DEFAULT 0')
    WHERE type = 'table' AND name = 'tb_seckill_voucher';
PRAGMA writable_schema = RESET;

CREATE TABLE tb_shard_stock (
    voucher_id        INTEGER NOT NULL REFERENCES tb_seckill_voucher (voucher_id),
    -- From 1 to the number of shards of the sale.
    shard             INTEGER NOT NULL CHECK (shard > 0),
    initial_stock     INTEGER NOT NULL CHECK (initial_stock >= 0),
    stock             INTEGER NOT NULL CHECK (stock >= 0),
    -- Each change of the sale raises the version of all its shards.
    version           INTEGER NOT NULL DEFAULT 1,
    delivered_version INTEGER NOT NULL DEFAULT 0,
    update_time       INTEGER NOT NULL,
    -- Its ID while it was a voucher of its own: entries in Redis may still have it.
    former_voucher_id INTEGER UNIQUE,
    PRIMARY KEY (voucher_id, shard),
    CHECK (stock <= initial_stock)
) STRICT;
CREATE INDEX idx_undelivered_shard ON tb_shard_stock (voucher_id, shard) WHERE delivered_version < version;

-- Where a change had reached some of the shards, the sale has the state that sells less.
INSERT INTO tb_seckill_voucher (voucher_id, initial_stock, stock, begin_time, end_time, state, version, create_time,
    update_time, user_limit, archive_time, delivered_version, shards)
SELECT shard_of, SUM(initial_stock), NULL, MAX(begin_time), MAX(end_time),
    CASE WHEN SUM(state = 'ended') > 0 THEN 'ended' WHEN SUM(state = 'paused') > 0 THEN 'paused' ELSE 'running' END,
    MAX(version), MAX(create_time), MAX(update_time), MIN(user_limit),
    CASE WHEN COUNT(archive_time) = COUNT(*) THEN MAX(archive_time) END, NULL, MAX(shards)
FROM tb_seckill_voucher WHERE shard_of IS NOT NULL GROUP BY shard_of;

INSERT INTO tb_shard_stock (voucher_id, shard, initial_stock, stock, version, delivered_version, update_time,
    former_voucher_id)
SELECT p.shard_of, p.voucher_id - p.shard_of, p.initial_stock, p.stock,
    p.version + CASE WHEN p.state = s.state AND p.begin_time IS s.begin_time
        AND (p.archive_time IS NULL) = (s.archive_time IS NULL) THEN 0 ELSE 1 END,
    p.delivered_version, p.update_time, p.voucher_id
FROM tb_seckill_voucher p JOIN tb_seckill_voucher s ON s.voucher_id = p.shard_of;

-- `place` has another name, so that a node of an earlier version, which knows orders of shards only, waits with an error
-- instead of treating them as orders of unknown sales.
ALTER TABLE tb_voucher_order RENAME COLUMN place TO buyer_place;
ALTER TABLE tb_give_back RENAME COLUMN place TO buyer_place;
-- The shard that sold it; 0 if the sale is not spread.
ALTER TABLE tb_voucher_order ADD COLUMN shard INTEGER NOT NULL DEFAULT 0 CHECK (shard >= 0);
ALTER TABLE tb_give_back ADD COLUMN shard INTEGER NOT NULL DEFAULT 0;

-- Without the indexes, which are made once at the end.
DROP INDEX uk_one_live_order;
DROP INDEX idx_live_order;
DROP INDEX idx_closed_order;
UPDATE tb_voucher_order SET (voucher_id, shard) = (
    SELECT p.voucher_id, p.shard FROM tb_shard_stock p WHERE p.former_voucher_id = tb_voucher_order.voucher_id)
WHERE voucher_id IN (SELECT former_voucher_id FROM tb_shard_stock);
UPDATE tb_give_back SET (voucher_id, shard) = (
    SELECT p.voucher_id, p.shard FROM tb_shard_stock p WHERE p.former_voucher_id = tb_give_back.voucher_id)
WHERE voucher_id IN (SELECT former_voucher_id FROM tb_shard_stock);
UPDATE tb_audit_log SET subject = '#' || (
    SELECT p.voucher_id FROM tb_shard_stock p WHERE '#' || p.former_voucher_id = tb_audit_log.subject)
WHERE subject IN (SELECT '#' || former_voucher_id FROM tb_shard_stock);

-- The foreign key looks for orders of each sale that is removed.
CREATE INDEX idx_order_sale ON tb_voucher_order (voucher_id);
DELETE FROM tb_seckill_voucher WHERE shard_of IS NOT NULL;
DROP INDEX idx_order_sale;
ALTER TABLE tb_seckill_voucher DROP COLUMN shard_of;
DELETE FROM tb_voucher WHERE id IN (SELECT former_voucher_id FROM tb_shard_stock);

-- One live order a buyer, voucher and place, whichever shard sold it; a closed one leaves the index.
CREATE UNIQUE INDEX uk_one_live_order ON tb_voucher_order (voucher_id, user_id, buyer_place)
    WHERE status NOT IN (4, 5);
-- Live orders of a shard by ID, a page at a time; closed ones likewise.
CREATE INDEX idx_live_order ON tb_voucher_order (voucher_id, shard, id) WHERE status NOT IN (4, 5);
CREATE INDEX idx_closed_order ON tb_voucher_order (voucher_id, shard, id) WHERE status IN (4, 5);
