//! Program and version of a schema: the same checks for every dialect.

use seckill_model::reason;
use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration, Migrator};

use crate::{Fault, Result, StoreError};

/// Newest schema version of this build.
fn known(migrator: &Migrator) -> i64 {
    migrator.iter().map(|it| it.version).max().unwrap_or(0)
}

/// Whether the tables belong to this program; `false` if there are none.
///
/// # Errors
/// They belong to another program.
fn is_ours(shown: &str, tables: &[String]) -> Result<bool> {
    let has = |name: &str| tables.iter().any(|it| it == name);
    if tables.is_empty() || (tables.len() == 1 && has(MIGRATIONS)) {
        return Ok(false);
    }
    // A program killed while creating the first table leaves that one and the migrations table.
    if !has(MIGRATIONS) || !(has("tb_seckill_voucher") || has("tb_voucher")) {
        let some: Vec<&str> = tables.iter().take(3).map(String::as_str).collect();
        let tables = some.join(", ");
        return Err(StoreError::File(reason!("store-file-foreign", path = shown, tables)));
    }
    Ok(true)
}

/// The applied migrations; `None` if there are no tables of this program yet.
///
/// # Errors
/// The tables belong to another program, or to a newer version.
pub(super) async fn applied<C: Migrate>(
    conn: &mut C,
    migrator: &Migrator,
    shown: &str,
    tables: &[String],
) -> Result<Option<Vec<AppliedMigration>>, Fault> {
    if !is_ours(shown, tables)? {
        return Ok(None);
    }
    let applied = conn.list_applied_migrations(MIGRATIONS).await;
    let applied = applied.map_err(|error| fault(migrator, error))?;
    match applied.iter().map(|it| it.version).max() {
        Some(version) if version > known(migrator) => Err(newer(migrator, version).into()),
        _ => Ok(Some(applied)),
    }
}

/// Table in which sqlx records migrations.
pub(super) const MIGRATIONS: &str = "_sqlx_migrations";

/// Whether all migrations of this build were applied.
pub(super) fn is_current(migrator: &Migrator, applied: &[AppliedMigration]) -> bool {
    let done = |it: &Migration| {
        applied.iter().any(|done| done.version == it.version && done.checksum == it.checksum)
    };
    applied.len() == migrator.iter().count() && migrator.iter().all(done)
}

fn newer(migrator: &Migrator, version: i64) -> StoreError {
    let (version, known) = (version, known(migrator));
    StoreError::Schema(reason!("store-schema-newer", version, known))
}

/// Why the schema cannot be read or upgraded.
pub(super) fn fault(migrator: &Migrator, error: MigrateError) -> Fault {
    let reason = match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            return error.into();
        }
        MigrateError::VersionMissing(version) if version > known(migrator) => {
            return newer(migrator, version).into();
        }
        MigrateError::VersionMissing(version) | MigrateError::VersionMismatch(version) => {
            reason!("store-schema-other", version)
        }
        MigrateError::Dirty(version) => reason!("store-schema-half-done", version),
        other => reason!("store-schema-stuck", reason = other.to_string()),
    };
    StoreError::Schema(reason).into()
}
