//! The migrations of each database, compiled in from `migrations/`. Cargo does not notice a new file: touch this one. A
//! test fails until then.
//!
//! Built without `sqlx::migrate!`, whose `macros` feature compiles every database driver a second time.

use std::sync::LazyLock;

use include_dir::{Dir, File, include_dir};
use sqlx::{
    AssertSqlSafe, SqlSafeStr as _, SqlStr,
    migrate::{Migration, MigrationType, Migrator},
};

static FOLDERS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../migrations");

pub(super) static SQLITE: LazyLock<Migrator> = LazyLock::new(|| migrator("sqlite"));
pub(super) static MYSQL: LazyLock<Migrator> = LazyLock::new(|| migrator("mysql"));
pub(super) static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| migrator("postgres"));

/// Without the lock of sqlx, which has no timeout and is taken after the tables are examined: each database is locked
/// earlier.
fn migrator(folder: &str) -> Migrator {
    let files = FOLDERS.get_dir(folder).into_iter().flat_map(Dir::files);
    let mut migrations: Vec<Migration> = files.filter_map(migration).collect();
    migrations.sort_by_key(|it| it.version);
    let mut migrator = Migrator::with_migrations(migrations);
    migrator.set_locking(false);
    migrator
}

/// A file named `VERSION_DESCRIPTION.sql`; a test checks that there is no other.
fn migration(file: &'static File<'static>) -> Option<Migration> {
    let (version, description) = file.path().file_stem()?.to_str()?.split_once('_')?;
    let (version, description) = (version.parse().ok()?, description.replace('_', " "));
    let text = file.contents_utf8()?;
    let (kind, sql) = (MigrationType::Simple, SqlStr::from_static(text));
    let mut migration = Migration::new(version, description.into(), kind, sql, false);
    // The keys are too long for another format, which a server may have as its default. The checksum, which a database
    // stores, remains that of the file.
    let formatted = text.replace("ENGINE = InnoDB", "ENGINE = InnoDB ROW_FORMAT = DYNAMIC");
    migration.sql = AssertSqlSafe(formatted).into_sql_str();
    Some(migration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_compiled_in() {
        for (folder, migrator) in [("sqlite", &SQLITE), ("mysql", &MYSQL), ("postgres", &POSTGRES)]
        {
            let folder = format!("{}/../../migrations/{folder}", env!("CARGO_MANIFEST_DIR"));
            let mut files: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|file| file.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            let known = migrator
                .iter()
                .map(|it| format!("{:04}_{}.sql", it.version, it.description.replace(' ', "_")));
            assert_eq!(known.collect::<Vec<_>>(), files);
        }
    }
}
