-- The record: what an act sent, what it found and what it left; lines that are written once; the log by time.
--
-- Every statement can be repeated. MySQL knows no ADD COLUMN IF NOT EXISTS, so the one that changes the table
-- is made only where the table lacks it; all of it is one statement, which is done as a whole or not at all.

SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
     WHERE table_schema = DATABASE() AND table_name = 'tb_audit_log' AND column_name = 'once') > 0,
    'DO 0',
    'ALTER TABLE tb_audit_log
        ADD COLUMN commands       TEXT,
        ADD COLUMN figures_before TEXT,
        ADD COLUMN figures_after  TEXT,
        ADD COLUMN once           VARCHAR(255),
        ADD UNIQUE KEY uk_audit_once (once),
        ADD KEY idx_audit_at (at, id)');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;
