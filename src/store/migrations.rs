//! The migrations of each database, compiled in from `migrations/`.
//!
//! Built without `sqlx::migrate!`, whose `macros` feature compiles every database driver a second time.

use std::sync::LazyLock;

use sqlx::{
    SqlStr,
    migrate::{Migration, MigrationType, Migrator},
};

macro_rules! migrations {
    ($(#[$doc:meta])* $name:ident, $folder:literal, [$($file:literal),+ $(,)?]) => {
        $(#[$doc])*
        pub(super) static $name: LazyLock<Migrator> = LazyLock::new(|| {
            migrator(&[
                $(($file, include_str!(concat!("../../migrations/", $folder, "/", $file, ".sql")))),+
            ])
        });
    };
}

migrations!(
    /// For SQLite.
    SQLITE,
    "sqlite",
    [
        "0001_vouchers_and_orders",
        "0002_locks_jobs_payment",
        "0003_life_of_a_sale",
        "0004_record",
        "0005_delivery",
        "0006_record_without_statements",
        "0007_ordinary_orders",
    ]
);
migrations!(
    /// For MySQL and MariaDB.
    MYSQL,
    "mysql",
    [
        "0001_vouchers_orders_jobs",
        "0002_record",
        "0003_delivery",
        "0004_record_without_statements",
        "0005_ordinary_orders",
    ]
);
migrations!(
    /// For PostgreSQL.
    POSTGRES,
    "postgres",
    [
        "0001_vouchers_orders_jobs",
        "0002_record",
        "0003_delivery",
        "0004_record_without_statements",
        "0005_ordinary_orders",
    ]
);

/// Without the lock of sqlx, which has no timeout and is taken after the tables are examined: each database is locked
/// earlier.
fn migrator(files: &[(&str, &'static str)]) -> Migrator {
    let migrations = files.iter().zip(1..).map(|((file, sql), version)| {
        let description = file.split_once('_').map_or("", |(_, text)| text).replace('_', " ");
        let sql = SqlStr::from_static(sql);
        Migration::new(version, description.into(), MigrationType::Simple, sql, false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.set_locking(false);
    migrator
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
