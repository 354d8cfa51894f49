-- An order of a sale over shards belongs to the voucher that was sold; a shard has a stock of its own, and nothing else.
-- Before, each shard was a voucher and a sale of its own, with an ID that followed that of the voucher.

-- Every order is rewritten, which takes longer than a statement may.
SET LOCAL statement_timeout = 0;

-- Nodes of an earlier version may go on writing meanwhile: the longest locks come first, not one after another.
LOCK TABLE tb_voucher_order, tb_give_back, tb_seckill_voucher, tb_voucher IN ACCESS EXCLUSIVE MODE;

-- In a sale over shards, `stock` and `delivered_version` are NULL: each shard has its own, in `tb_shard_stock`.
-- `initial_stock` is the sum of its shards, `version` counts the changes of the sale itself.
ALTER TABLE tb_seckill_voucher ALTER COLUMN stock DROP NOT NULL, ALTER COLUMN delivered_version DROP NOT NULL;

CREATE TABLE tb_shard_stock (
    voucher_id        BIGINT NOT NULL REFERENCES tb_seckill_voucher (voucher_id),
    -- From 1 to the number of shards of the sale.
    shard             BIGINT NOT NULL CHECK (shard > 0),
    initial_stock     BIGINT NOT NULL CHECK (initial_stock >= 0),
    stock             BIGINT NOT NULL CHECK (stock >= 0),
    -- Each change of the sale raises the version of all its shards.
    version           BIGINT NOT NULL DEFAULT 1,
    delivered_version BIGINT NOT NULL DEFAULT 0,
    update_time       BIGINT NOT NULL,
    -- Its ID while it was a voucher of its own: entries in Redis may still have it.
    former_voucher_id BIGINT UNIQUE,
    PRIMARY KEY (voucher_id, shard),
    CHECK (stock <= initial_stock)
)
WITH (fillfactor = 50);
CREATE INDEX idx_undelivered_shard ON tb_shard_stock (voucher_id, shard) WHERE delivered_version < version;

-- Where a change had reached some of the shards, the sale has the state that sells less.
INSERT INTO tb_seckill_voucher (voucher_id, initial_stock, stock, begin_time, end_time, state, version, create_time,
    update_time, user_limit, archive_time, delivered_version, shards)
SELECT shard_of, SUM(initial_stock), NULL, MAX(begin_time), MAX(end_time),
    CASE WHEN COUNT(*) FILTER (WHERE state = 'ended') > 0 THEN 'ended'
        WHEN COUNT(*) FILTER (WHERE state = 'paused') > 0 THEN 'paused' ELSE 'running' END,
    MAX(version), MAX(create_time), MAX(update_time), MIN(user_limit),
    CASE WHEN COUNT(archive_time) = COUNT(*) THEN MAX(archive_time) END, NULL, MAX(shards)
FROM tb_seckill_voucher WHERE shard_of IS NOT NULL GROUP BY shard_of;

INSERT INTO tb_shard_stock (voucher_id, shard, initial_stock, stock, version, delivered_version, update_time,
    former_voucher_id)
SELECT p.shard_of, p.voucher_id - p.shard_of, p.initial_stock, p.stock,
    p.version + CASE WHEN p.state = s.state AND p.begin_time IS NOT DISTINCT FROM s.begin_time
        AND (p.archive_time IS NULL) = (s.archive_time IS NULL) THEN 0 ELSE 1 END,
    p.delivered_version, p.update_time, p.voucher_id
FROM tb_seckill_voucher p JOIN tb_seckill_voucher s ON s.voucher_id = p.shard_of;

-- `place` has another name, so that a node of an earlier version, which knows orders of shards only, waits with an error
-- instead of treating them as orders of unknown sales.
ALTER TABLE tb_voucher_order RENAME COLUMN place TO buyer_place;
ALTER TABLE tb_give_back RENAME COLUMN place TO buyer_place;
-- The shard that sold it; 0 if the sale is not spread.
ALTER TABLE tb_voucher_order ADD COLUMN shard BIGINT NOT NULL DEFAULT 0 CHECK (shard >= 0);
ALTER TABLE tb_give_back ADD COLUMN shard BIGINT NOT NULL DEFAULT 0;

-- Without the indexes and the foreign key, which are made once at the end.
DROP INDEX uk_one_live_order;
DROP INDEX idx_live_order;
DROP INDEX idx_closed_order;
ALTER TABLE tb_voucher_order DROP CONSTRAINT tb_voucher_order_voucher_id_fkey;
UPDATE tb_voucher_order o SET voucher_id = p.voucher_id, shard = p.shard
FROM tb_shard_stock p WHERE p.former_voucher_id = o.voucher_id;
UPDATE tb_give_back g SET voucher_id = p.voucher_id, shard = p.shard
FROM tb_shard_stock p WHERE p.former_voucher_id = g.voucher_id;
UPDATE tb_audit_log a SET subject = '#' || p.voucher_id
FROM tb_shard_stock p WHERE a.subject = '#' || p.former_voucher_id;

DELETE FROM tb_seckill_voucher WHERE shard_of IS NOT NULL;
ALTER TABLE tb_seckill_voucher DROP COLUMN shard_of;
DELETE FROM tb_voucher WHERE id IN (SELECT former_voucher_id FROM tb_shard_stock);
ALTER TABLE tb_voucher_order ADD CONSTRAINT tb_voucher_order_voucher_id_fkey
    FOREIGN KEY (voucher_id) REFERENCES tb_seckill_voucher (voucher_id);

-- One live order a buyer, voucher and place, whichever shard sold it; a closed one leaves the index.
CREATE UNIQUE INDEX uk_one_live_order ON tb_voucher_order (voucher_id, user_id, buyer_place)
    WHERE status NOT IN (4, 5);
-- Live orders of a shard by ID, a page at a time; closed ones likewise.
CREATE INDEX idx_live_order ON tb_voucher_order (voucher_id, shard, id) WHERE status NOT IN (4, 5);
CREATE INDEX idx_closed_order ON tb_voucher_order (voucher_id, shard, id) WHERE status IN (4, 5);
