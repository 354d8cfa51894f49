//! The versions of servers with which this program was tested.

use seckill_model::Label;
use serde::Deserialize;

/// Written by the test of all servers.
const RECORD: &str = include_str!("../../assets/servers.toml");

#[derive(Deserialize)]
struct Record {
    server: Vec<Tested>,
}

#[derive(Deserialize)]
struct Tested {
    product: String,
    version: String,
    /// None for a version that is refused.
    passed: Vec<String>,
}

/// The product of a database server, from its description and what it answers about its version; `None` for SQLite, which
/// is part of this program.
pub(super) fn product(described: &str, version: &str) -> Option<&'static str> {
    match described.split_whitespace().next()? {
        "mysql" if version.to_lowercase().contains("mariadb") => Some("MariaDB"),
        "mysql" => Some("MySQL"),
        "postgres" => Some("PostgreSQL"),
        _ => None,
    }
}

/// The tested versions, if this is none of them. A later patch of a tested version counts as tested.
pub(super) fn others(product: &str, version: &str) -> Option<String> {
    // A test reads it too.
    let record: Record = toml::from_str(RECORD).ok()?;
    let is_of = |it: &Tested| it.product.eq_ignore_ascii_case(product);
    let tested: Vec<&Tested> = record.server.iter().filter(|it| !it.passed.is_empty()).collect();
    let is_tested =
        |it: &&Tested| is_of(it) && series(product, &it.version) == series(product, version);
    if tested.iter().any(is_tested) {
        return None;
    }
    // Those of other products, if there is none of this one, such as a fork.
    let own: Vec<&Tested> = tested.iter().copied().filter(|it| is_of(it)).collect();
    let shown = if own.is_empty() { tested } else { own };
    let names =
        shown.iter().map(|it| format!("{} {}", it.product, series(&it.product, &it.version)));
    Some(names.collect::<Vec<_>>().join(&Label("list-items")))
}

/// The part of a version that is the same for all of its patches.
fn series(product: &str, version: &str) -> String {
    let numbers = if product.eq_ignore_ascii_case("PostgreSQL") { 1 } else { 2 };
    let number =
        version.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap_or_default();
    number.split('.').take(numbers).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_of_tested_versions_are_tested() {
        let record: Record = toml::from_str(RECORD).unwrap();
        assert!(record.server.iter().any(|it| !it.passed.is_empty()));
        for Tested { product, version, passed } in record.server {
            let patch = format!("{}.99-1 (a packager)", series(&product, &version));
            for version in [version, patch] {
                assert_eq!(others(&product, &version).is_none(), !passed.is_empty(), "{version}");
            }
        }
        let other = others("redis", "99.9.1").unwrap();
        assert!(other.contains("Redis 7.0") && !other.contains("MariaDB"), "{other}");
        assert!(others("a-fork", "7.0.1").unwrap().contains("Redis 7.0"));
    }

    #[test]
    fn series_follow_the_customs_of_each_product() {
        assert_eq!(series("postgresql", "17.12 (Debian 17.12-0+deb13u1)"), "17");
        assert_eq!(series("PostgreSQL", "19beta1"), "19");
        assert_eq!(series("MariaDB", "10.11.18-MariaDB-0+deb12u1"), "10.11");
        assert_eq!(series("valkey", "9.1.2"), "9.1");
    }

    #[test]
    fn products_are_distinguished() {
        assert_eq!(product("mysql shop at /s", "10.11.18-MariaDB"), Some("MariaDB"));
        assert_eq!(product("mysql h:3306/shop", "9.7.4-2"), Some("MySQL"));
        assert_eq!(product("postgres h:5432/shop schema public", "18.6"), Some("PostgreSQL"));
        assert_eq!(product("sqlite /x", "3.50.2"), None);
    }
}
