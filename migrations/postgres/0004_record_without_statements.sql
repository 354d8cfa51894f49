-- The audit log quoted statements that were never sent as written; the command and its arguments stand in `act` and
-- `subject`. The table is small: one line for each command of an operator and each event.
ALTER TABLE tb_audit_log DROP COLUMN commands;
