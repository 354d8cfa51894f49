-- Each change of a sale is delivered to Redis until it confirms the version. Every statement can be repeated.

SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
     WHERE table_schema = DATABASE() AND table_name = 'tb_seckill_voucher' AND column_name = 'delivered_version') > 0,
    'DO 0',
    'ALTER TABLE tb_seckill_voucher ADD COLUMN delivered_version BIGINT NOT NULL DEFAULT 0');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;
