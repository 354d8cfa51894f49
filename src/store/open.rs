//! From a database URL to a store: reads the scheme, and refuses what no dialect here speaks.
//!
//! This file must not know tables. A URL may hold a password, so no message repeats more of it
//! than the scheme.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf, sync::Arc};

use super::{SharedStore, StoreError, sqlite::SqliteStore};

/// Opens the store behind `url`, creates what is missing and brings its schema up to date.
///
/// `sqlite:PATH` and `sqlite://PATH` name a file; `%XX` in it stands for one byte.
pub async fn open(url: &str) -> Result<SharedStore, StoreError> {
    let path = sqlite_path(url)?;
    Ok(Arc::new(SqliteStore::open(&path).await?))
}

pub(super) fn sqlite_path(url: &str) -> Result<PathBuf, StoreError> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(fault("the database URL has no scheme; write sqlite:PATH"));
    };
    match scheme {
        "sqlite" => {}
        "mysql" | "mariadb" => {
            return Err(fault("mysql is not supported yet; use sqlite:PATH"));
        }
        "postgres" | "postgresql" => {
            return Err(fault("postgres is not supported yet; use sqlite:PATH"));
        }
        _ => return Err(fault("the database URL has a scheme unknown here; use sqlite:PATH")),
    }
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.starts_with(":memory:") {
        return Err(fault(
            "sqlite::memory: can't be used, because several connections share the database; use sqlite:PATH",
        ));
    }
    if path.contains('?') {
        return Err(fault(
            "a SQLite URL takes no parameters here (write %3F for a '?' in a file name); use sqlite:PATH",
        ));
    }
    if path.is_empty() {
        return Err(fault("the database URL names no file; use sqlite:PATH"));
    }
    Ok(PathBuf::from(OsString::from_vec(percent_decoded(path.as_bytes()))))
}

/// Bytes with each `%XX` replaced; a `%` that starts no such triple stands for itself.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        if let (b'%', Some(high), Some(low)) = (byte, digit(at + 1), digit(at + 2)) {
            bytes.push((high * 16 + low) as u8);
            at += 3;
        } else {
            bytes.push(byte);
            at += 1;
        }
    }
    bytes
}

fn fault(sentence: &str) -> StoreError {
    StoreError::Url(sentence.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same_file() {
        for (url, path) in [
            ("sqlite:a/b.db", "a/b.db"),
            ("sqlite://a/b.db", "a/b.db"),
            ("sqlite:///a/b.db", "/a/b.db"),
            ("sqlite:/a/b.db", "/a/b.db"),
            ("sqlite:/a/100%.db", "/a/100%.db"),
            ("sqlite:/a/%3F%25%e7%81%ab.db", "/a/?%火.db"),
        ] {
            assert_eq!(sqlite_path(url).unwrap(), PathBuf::from(path), "{url}");
        }
    }

    #[test]
    fn refusals_are_sentences_without_secrets() {
        for url in [
            "mysql://root:hunter2@db/x",
            "postgres://u:hunter2@db/x",
            "hunter2",
            "x-hunter2://y",
            "sqlite:a.db?key=hunter2",
            "sqlite:",
            "sqlite://",
            "sqlite::memory:",
            "sqlite://:memory:",
            "",
        ] {
            let told = sqlite_path(url).unwrap_err().to_string();
            assert!(told.contains("sqlite:PATH") && !told.contains("hunter2"), "{url}: {told}");
        }
    }
}
