-- A sale that is spread over several shards: each shard is a sale of its own, of the users whose ID falls to it. Every
-- statement can be repeated.

-- The voucher that buyers ask for, NULL for a sale that is not spread; and its number of shards. A shard's ID is that of
-- the voucher plus its number, from 1.
SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
     WHERE table_schema = DATABASE() AND table_name = 'tb_seckill_voucher' AND column_name = 'shards') > 0,
    'DO 0',
    'ALTER TABLE tb_seckill_voucher ADD COLUMN shard_of BIGINT, ADD COLUMN shards BIGINT CHECK (shards > 1)');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;
