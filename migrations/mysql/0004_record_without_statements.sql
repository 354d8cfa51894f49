-- The audit log quoted statements that were never sent as written; the command and its arguments stand in `act` and
-- `subject`. The table is small: one line for each command of an operator and each event.
--
-- Every statement can be repeated; the one that changes the table is made only where it is still to be done.

SET @change = IF(
    (SELECT COUNT(*) FROM information_schema.columns
     WHERE table_schema = DATABASE() AND table_name = 'tb_audit_log' AND column_name = 'commands') > 0,
    'ALTER TABLE tb_audit_log DROP COLUMN commands',
    'DO 0');
PREPARE change_of_table FROM @change;
EXECUTE change_of_table;
DEALLOCATE PREPARE change_of_table;
