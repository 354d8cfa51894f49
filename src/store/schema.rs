//! Which program made a schema, and which version it has: the same checks for every dialect.

use sqlx::migrate::{AppliedMigration, MigrateError, Migration, Migrator};

use super::{FileFault, SchemaFault, StoreError};

/// The newest schema that this build knows.
pub(super) fn known(migrator: &Migrator) -> i64 {
    migrator.iter().map(|it| it.version).max().unwrap_or(0)
}

/// Whether the tables are those of this program; `false` where there are none.
///
/// # Errors
/// Another program made them.
pub(super) fn is_ours(shown: &str, tables: &[String]) -> Result<bool, StoreError> {
    let has = |name: &str| tables.iter().any(|it| it == name);
    if tables.is_empty() || (tables.len() == 1 && has(MIGRATIONS)) {
        return Ok(false);
    }
    // A program that was killed while it made the first table leaves the migrations and that one.
    if !has(MIGRATIONS) || !(has("tb_seckill_voucher") || has("tb_voucher")) {
        let some: Vec<&str> = tables.iter().take(3).map(String::as_str).collect();
        return Err(FileFault::Foreign(shown.to_owned(), some.join(", ")).into());
    }
    Ok(true)
}

/// Refuses a schema that is newer than this build.
pub(super) fn check_version(migrator: &Migrator, version: Option<i64>) -> Result<(), StoreError> {
    match version {
        Some(version) if version > known(migrator) => Err(newer(migrator, version)),
        _ => Ok(()),
    }
}

/// Where sqlx writes down what it has applied.
pub(super) const MIGRATIONS: &str = "_sqlx_migrations";

/// Whether what was applied is all that this build would apply.
pub(super) fn is_current(migrator: &Migrator, applied: &[AppliedMigration]) -> bool {
    let done = |it: &Migration| {
        applied.iter().any(|done| done.version == it.version && done.checksum == it.checksum)
    };
    applied.len() == migrator.iter().count() && migrator.iter().all(done)
}

fn newer(migrator: &Migrator, version: i64) -> StoreError {
    SchemaFault::Newer(version, known(migrator)).into()
}

/// Why the schema can't be brought up to date; what the database itself said is given back as it is.
pub(super) fn fault(migrator: &Migrator, fault: MigrateError) -> Result<StoreError, sqlx::Error> {
    let fault = match fault {
        MigrateError::Execute(fault) | MigrateError::ExecuteMigration(fault, _) => {
            return Err(fault);
        }
        MigrateError::VersionMissing(version) if version > known(migrator) => {
            return Ok(newer(migrator, version));
        }
        MigrateError::VersionMissing(version) | MigrateError::VersionMismatch(version) => {
            SchemaFault::Other(version)
        }
        MigrateError::Dirty(version) => SchemaFault::HalfDone(version),
        other => SchemaFault::Stuck(other.to_string()),
    };
    Ok(fault.into())
}
