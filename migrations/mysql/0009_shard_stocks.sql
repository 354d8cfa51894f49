-- An order of a sale over shards belongs to the voucher that was sold; a shard has a stock of its own, and nothing else.
-- Before, each shard was a voucher and a sale of its own, with an ID that followed that of the voucher. Every statement
-- can be repeated; rows are moved in one transaction.

-- Every order is rewritten, which takes longer than a statement may. Only MariaDB limits such statements.
SET @unlimited = 0 /*M! , SESSION max_statement_time = 0 */;

-- `place` has another name, so that a node of an earlier version, which knows orders of shards only, waits with an error
-- instead of treating them as orders of unknown sales. MySQL renames no column that a constraint names.
SET @change = (
    SELECT IF(COUNT(*) = 0, 'DO 0', CONCAT('ALTER TABLE tb_voucher_order DROP CONSTRAINT ', MIN(constraint_name)))
    FROM information_schema.check_constraints
    WHERE constraint_schema = DATABASE() AND constraint_name LIKE 'tb\_voucher\_order\_chk%'
    AND check_clause LIKE '%`place`%');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;
-- The shard that sold an order is 0 if the sale is not spread. Live orders of a shard by ID, a page at a time; closed ones
-- likewise.
SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
     WHERE table_schema = DATABASE() AND table_name = 'tb_voucher_order' AND column_name = 'place') = 0,
    'DO 0',
    'ALTER TABLE tb_voucher_order
        RENAME COLUMN place TO buyer_place,
        ADD COLUMN shard SMALLINT NOT NULL DEFAULT 0,
        DROP KEY idx_live_order,
        ADD KEY idx_live_order (voucher_id, live, shard, id)
        /*!80000 , ADD CONSTRAINT ck_buyer_place CHECK (buyer_place BETWEEN 1 AND 20) */');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;
SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
     WHERE table_schema = DATABASE() AND table_name = 'tb_give_back' AND column_name = 'place') = 0,
    'DO 0',
    'ALTER TABLE tb_give_back RENAME COLUMN place TO buyer_place, ADD COLUMN shard SMALLINT NOT NULL DEFAULT 0');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;

-- In a sale over shards, `stock` and `delivered_version` are NULL: each shard has its own, in `tb_shard_stock`.
-- `initial_stock` is the sum of its shards, `version` counts the changes of the sale itself.
ALTER TABLE tb_seckill_voucher
    MODIFY stock BIGINT /*M! CHECK (stock >= 0) */,
    MODIFY delivered_version BIGINT DEFAULT 0;

CREATE TABLE IF NOT EXISTS tb_shard_stock (
    voucher_id        BIGINT   NOT NULL,
    -- From 1 to the number of shards of the sale.
    shard             SMALLINT NOT NULL CHECK (shard > 0),
    initial_stock     BIGINT   NOT NULL CHECK (initial_stock >= 0),
    stock             BIGINT   NOT NULL CHECK (stock >= 0),
    -- Each change of the sale raises the version of all its shards.
    version           BIGINT   NOT NULL DEFAULT 1,
    delivered_version BIGINT   NOT NULL DEFAULT 0,
    update_time       BIGINT   NOT NULL,
    -- Its ID while it was a voucher of its own: entries in Redis may still have it.
    former_voucher_id BIGINT,
    PRIMARY KEY (voucher_id, shard),
    UNIQUE KEY uk_former_voucher (former_voucher_id),
    CONSTRAINT ck_shard_stock CHECK (stock <= initial_stock),
    CONSTRAINT fk_shard_sale FOREIGN KEY (voucher_id) REFERENCES tb_seckill_voucher (voucher_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

START TRANSACTION;
SET @has_shards = (
    SELECT COUNT(*) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'tb_seckill_voucher' AND column_name = 'shard_of');
-- No change of a sale that a node of an earlier version makes meanwhile is lost: it waits, and fails.
SET @change = IF(@has_shards = 0, 'DO 0',
    'SELECT COUNT(*) INTO @locked FROM tb_seckill_voucher WHERE shard_of IS NOT NULL FOR UPDATE');
PREPARE change_of_rows FROM @change;
EXECUTE change_of_rows;
DEALLOCATE PREPARE change_of_rows;
-- Where a change had reached some of the shards, the sale has the state that sells less.
SET @change = IF(@has_shards = 0, 'DO 0',
    'INSERT INTO tb_seckill_voucher (voucher_id, initial_stock, stock, begin_time, end_time, state, version,
        create_time, update_time, user_limit, archive_time, delivered_version, shards)
    SELECT shard_of, SUM(initial_stock), NULL, MAX(begin_time), MAX(end_time),
        CASE WHEN SUM(state = ''ended'') > 0 THEN ''ended'' WHEN SUM(state = ''paused'') > 0 THEN ''paused''
            ELSE ''running'' END,
        MAX(version), MAX(create_time), MAX(update_time), MIN(user_limit),
        CASE WHEN COUNT(archive_time) = COUNT(*) THEN MAX(archive_time) END, NULL, MAX(shards)
    FROM tb_seckill_voucher WHERE shard_of IS NOT NULL GROUP BY shard_of');
PREPARE change_of_rows FROM @change;
EXECUTE change_of_rows;
DEALLOCATE PREPARE change_of_rows;
SET @change = IF(@has_shards = 0, 'DO 0',
    'INSERT INTO tb_shard_stock (voucher_id, shard, initial_stock, stock, version, delivered_version, update_time,
        former_voucher_id)
    SELECT p.shard_of, p.voucher_id - p.shard_of, p.initial_stock, p.stock,
        p.version + CASE WHEN p.state = s.state AND p.begin_time <=> s.begin_time
            AND (p.archive_time IS NULL) = (s.archive_time IS NULL) THEN 0 ELSE 1 END,
        p.delivered_version, p.update_time, p.voucher_id
    FROM tb_seckill_voucher p JOIN tb_seckill_voucher s ON s.voucher_id = p.shard_of');
PREPARE change_of_rows FROM @change;
EXECUTE change_of_rows;
DEALLOCATE PREPARE change_of_rows;
UPDATE tb_voucher_order o JOIN tb_shard_stock p ON p.former_voucher_id = o.voucher_id
    SET o.shard = p.shard, o.voucher_id = p.voucher_id;
UPDATE tb_give_back g JOIN tb_shard_stock p ON p.former_voucher_id = g.voucher_id
    SET g.shard = p.shard, g.voucher_id = p.voucher_id;
UPDATE tb_audit_log a JOIN tb_shard_stock p ON a.subject = CONCAT('#', p.former_voucher_id)
    SET a.subject = CONCAT('#', p.voucher_id);
SET @change = IF(@has_shards = 0, 'DO 0', 'DELETE FROM tb_seckill_voucher WHERE shard_of IS NOT NULL');
PREPARE change_of_rows FROM @change;
EXECUTE change_of_rows;
DEALLOCATE PREPARE change_of_rows;
DELETE FROM tb_voucher WHERE id IN (SELECT former_voucher_id FROM tb_shard_stock);
COMMIT;

SET @change = IF(@has_shards = 0, 'DO 0', 'ALTER TABLE tb_seckill_voucher DROP COLUMN shard_of');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;
