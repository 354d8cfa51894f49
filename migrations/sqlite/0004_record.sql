-- The record: what an act sent, what it found and what it left; lines that are written once; the log by time.

ALTER TABLE tb_audit_log ADD COLUMN commands TEXT;
ALTER TABLE tb_audit_log ADD COLUMN figures_before TEXT;
ALTER TABLE tb_audit_log ADD COLUMN figures_after TEXT;
-- What makes a line one of its kind; NULL, which is unlike any other, in lines of older versions.
ALTER TABLE tb_audit_log ADD COLUMN once TEXT;
CREATE UNIQUE INDEX uk_audit_once ON tb_audit_log (once);
CREATE INDEX idx_audit_at ON tb_audit_log (at, id);
