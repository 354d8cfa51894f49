//! Program and version of a schema: the same checks for every dialect.

use seckill_model::reason;
use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration, Migrator};

use crate::{Dialect, Fault, Result, StoreError};

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

/// How much of the schema a database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No table of this program.
    Missing,
    /// The migrations up to this version; the last one may be incomplete.
    Older(i64),
    /// All migrations of this build.
    Current,
}

/// Examines the schema without a change.
///
/// # Errors
/// The tables belong to another program or to another version, or a migration is missing among those that are recorded.
pub(super) async fn state<C: Migrate>(
    conn: &mut C,
    migrator: &Migrator,
    dialect: &Dialect,
    shown: &str,
    tables: &[String],
) -> Result<State, Fault> {
    if !is_ours(shown, tables)? {
        return Ok(State::Missing);
    }
    let fault = |error| fault(migrator, dialect, error);
    let applied = conn.list_applied_migrations(MIGRATIONS).await.map_err(fault)?;
    let interrupted = conn.dirty_version(MIGRATIONS).await.map_err(fault)?;
    let reached = applied.iter().map(|it| it.version).max().unwrap_or(0);
    if reached > known(migrator) {
        return Err(newer(migrator, reached).into());
    }
    let is_other = |it: &&AppliedMigration| {
        interrupted != Some(it.version)
            && !migrator.iter().any(|own| own.version == it.version && own.checksum == it.checksum)
    };
    if let Some(&AppliedMigration { version, .. }) = applied.iter().find(is_other) {
        return Err(StoreError::Schema(reason!("store-schema-other", version)).into());
    }
    let is_applied = |own: &Migration| applied.iter().any(|it| it.version == own.version);
    let mut before = migrator.iter().filter(|own| own.version < reached);
    if let Some(&Migration { version, .. }) = before.find(|own| !is_applied(own)) {
        return Err(StoreError::Schema(reason!("store-schema-gap", version, reached)).into());
    }
    let is_current = interrupted.is_none() && reached == known(migrator);
    Ok(if is_current { State::Current } else { State::Older(reached) })
}

/// Table in which sqlx records migrations.
pub(super) const MIGRATIONS: &str = "_sqlx_migrations";

fn newer(migrator: &Migrator, version: i64) -> StoreError {
    let (version, known) = (version, known(migrator));
    StoreError::Schema(reason!("store-schema-newer", version, known))
}

/// The newest version, and that of a database in which something is missing.
pub(super) fn older(migrator: &Migrator, version: i64) -> StoreError {
    let (version, known) = (version, known(migrator));
    StoreError::Schema(reason!("store-schema-older", version, known))
}

/// Why the schema cannot be read or upgraded.
pub(super) fn fault(migrator: &Migrator, dialect: &Dialect, error: MigrateError) -> Fault {
    let reason = match error {
        MigrateError::Execute(error) => return error.into(),
        MigrateError::ExecuteMigration(error, version) => {
            let answer = error.as_database_error().map(dialect.classify);
            match answer.filter(|it| !it.is_outage()) {
                Some(answer) => reason!("store-schema-failed", version, reason = answer.reason()),
                None => return error.into(),
            }
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
