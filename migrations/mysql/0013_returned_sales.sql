-- A sale that goes back to the service that it came from: since when its orders are paid there, and neither paid nor
-- closed here. NULL for every other sale. Every statement can be repeated.

SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
     WHERE table_schema = DATABASE() AND table_name = 'tb_seckill_voucher' AND column_name = 'return_time') > 0,
    'DO 0',
    'ALTER TABLE tb_seckill_voucher ADD COLUMN return_time BIGINT');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;
