//! Settings: defaults, file, environment, flags; later ones take precedence.
//!
//! The command line passes in environment and flags; this module reads the file and merges them. It opens no other
//! file.

mod file;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use seckill_console::Keys;
use seckill_engine::settings::{MAX_PARTITIONS, Settings};
use seckill_model::{Label, OsError, Range, text};
use seckill_redis::{DataDirError, Redis, RedisError, data_dir::DataDir, server::ManagedServer};
use seckill_store::Settings as StoreSettings;
use serde::Deserialize;

use crate::{CliError, Result};

/// Merged settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Data directory; `None` is the XDG data directory.
    pub(crate) data_dir: Option<PathBuf>,
    /// Redis URL; `None` is the embedded server.
    pub(crate) redis: Option<String>,
    /// Trusted CA certificates (PEM) for an encrypted Redis; `None` is those of the system.
    pub(crate) redis_ca: Option<PathBuf>,
    /// Database URL; `None` is SQLite in the data directory.
    pub(crate) database: Option<String>,
    /// Number of partitions, each with its own order stream; `None` is the existing number, or 1.
    pub(crate) partitions: Option<u16>,
    /// Reject every command that changes something.
    pub(crate) read_only: bool,
    /// Name of this node; `None` is one that no other node on the data directory has.
    pub(crate) node: Option<String>,
    /// Theme of the console: a built-in one or a file; `None` is the dark one.
    pub(crate) theme: Option<String>,
    /// Directory of exports; `None` is the working directory.
    pub(crate) export_dir: Option<PathBuf>,
    pub(crate) engine: Settings,
    /// Settings of the connections to the database.
    pub(crate) store: StoreSettings,
    pub(crate) keys: Keys,
    /// The file, and its text.
    #[serde(skip)]
    pub(crate) source: Option<(PathBuf, String)>,
}

/// A setting that cannot be used: its name in the file, and why.
type Invalid = (&'static str, String);

impl Config {
    /// Reads `file`, or the default file if it exists. A given file must exist.
    pub(crate) fn load(file: Option<&Path>) -> Result<Self> {
        let default = default_file();
        let Some(path) = file.map(Path::to_path_buf).or(default.filter(|path| path.exists()))
        else {
            return Ok(Self::default());
        };
        let bytes = std::fs::read(&path).map_err(|why| {
            let (path, why) = (path.display(), OsError::of(&why));
            CliError::usage(text!("settings-cannot-read-config-file-check", path, why))
        })?;
        let text = file::text(bytes).map_err(|why| invalid(&path, &why))?;
        let config = file::read(&text).map_err(|why| invalid(&path, &why))?;
        Ok(Self { source: Some((path, text)), ..config })
    }

    pub(crate) fn open_data_dir(&self) -> Result<DataDir, DataDirError> {
        match &self.data_dir {
            Some(path) => DataDir::open(path),
            None => DataDir::open(DataDir::default_path()?),
        }
    }

    /// The configured Redis, or the embedded server of the data directory, which is not started yet.
    pub(crate) fn redis(&self, dir: &DataDir) -> Result<Redis, RedisError> {
        match &self.redis {
            Some(url) => Redis::trusting(url, self.redis_ca.as_deref()),
            None => Redis::from_managed(Arc::new(ManagedServer::attach(dir)?)),
        }
    }

    /// Error of the theme in the file, with its position.
    pub(crate) fn theme_fault(&self, why: &str) -> CliError {
        match &self.source {
            Some((path, text)) => invalid(path, &file::theme_fault(text, why)),
            None => CliError::list(why.to_owned()),
        }
    }

    /// The numbers, with the range of each.
    fn ranges(&self) -> impl Iterator<Item = Range> {
        let partitions = u64::from(self.partitions.unwrap_or(1));
        let partitions = ("partitions", partitions, 1, u64::from(MAX_PARTITIONS));
        [partitions].into_iter().chain(self.engine.ranges()).chain(self.store.ranges())
    }

    /// Rejects numbers out of range, unusable URLs, and node names that Redis keys cannot contain.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        for (name, value, least, most) in self.ranges() {
            if !(least..=most).contains(&value) {
                return Err((name, text!("faults-range", name, value, least, most)));
            }
        }
        if let Some(url) = &self.redis {
            Redis::from_url(url).map_err(|error| ("redis", error.to_string()))?;
        }
        if let Some(url) = &self.database {
            let checked = seckill_store::check_url(url, &self.store);
            checked.map_err(|error| ("database", error.to_string()))?;
        }
        let fine = |name: &String| {
            !name.is_empty()
                && name.len() <= 64
                && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
        };
        match &self.node {
            Some(name) if !fine(name) => {
                Err(("node", Label("settings-node-must-be-to-letters").to_owned()))
            }
            _ => Ok(()),
        }
    }
}

/// The errors of a file, one per line.
fn invalid(path: &Path, why: &str) -> CliError {
    CliError::list(text!("settings-invalid-config-file", path = path.display(), why))
}

/// `$XDG_CONFIG_HOME/seckill/config.toml`, or below `~/.config`.
fn default_file() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
    let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(base.join("seckill/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_overrides_defaults_and_rejects_typos() {
        let config = file::read("node = \"a\"\n[engine]\nqueue = 10\n").unwrap();
        assert_eq!((config.node.as_deref(), config.engine.queue), (Some("a"), 10));
        assert_eq!(config.engine.admission_batch, Settings::default().admission_batch);
        for (text, start) in [
            (
                "quue = 1",
                "line 1, column 1: unknown setting 'quue'; remove the line, or use one of data_dir,",
            ),
            ("[engine.jobs]\nx = 1", "line 2, column 1: unknown setting 'engine.jobs.x'"),
            ("a =", "line 1, column 4: invalid TOML: "),
            ("partitions = 5 6", "line 1, column 14: invalid TOML: "),
            ("[engine]\nqueue = 0", "line 2, column 1: engine.queue is 0"),
            (
                "[engine]\nqueue = -1",
                "line 2, column 9: engine.queue must be an integer from 1 to 1,000,000;",
            ),
            (
                "[engine]\norder_lock = 1",
                "line 2, column 14: engine.order_lock must be true or false",
            ),
            (
                "[engine.jobs]\ntrim_stream = 5",
                "line 2, column 15: engine.jobs.trim_stream must be a string",
            ),
            ("[engine.jobs]\ntrim_stream = \"x\"", "line 2, column 15: cannot read the schedule"),
            ("engine = 5", "line 1, column 10: engine must be a table"),
            ("\n[store]\npool = 1", "line 3, column 1: store.pool is 1"),
            (
                "store.pool = \"x\"",
                "line 1, column 14: store.pool must be an integer from 2 to 1,000;",
            ),
            ("[store]\ntls = \"x\"", "line 2, column 7: store.tls must be one of \"off\", "),
            ("read_only = true\npartitions = 0", "line 2, column 1: partitions is 0"),
            (
                "partitions = 99999",
                "line 1, column 14: partitions must be an integer from 1 to 64;",
            ),
            ("\nredis = \"localhost\"", "line 2, column 1: a Redis URL starts with"),
            ("\ndatabase = \"oracle://h/d\"", "line 2, column 1: "),
            ("database = \"mysql://h/d?ssl-mode=x\"", "line 1, column 1: "),
            ("\n\nnode = \"a b\"", "line 3, column 1: node must be"),
            ("theme = 5", "line 1, column 9: theme must be a string in quotes"),
            (
                "theme = \"dark\"\ntheme = \"light\"",
                "line 2, column 1: invalid TOML: duplicate key",
            ),
            ("[keys]\nmark = \"v\"\nmark = \"w\"", "line 3, column 1: invalid TOML: duplicate key"),
            (
                "[keys]\nfreeze = \"m\"",
                "line 2, column 1: 'freeze' and 'mouse' would share the key 'm'",
            ),
            (
                "[keys]\n\nfreeze = \"hyper-x\"",
                "line 3, column 1: 'freeze': 'hyper-x' is not a key",
            ),
            ("[keys]\nmark = 5", "line 2, column 8: keys.mark must be a key such as \"ctrl-n\""),
            ("[keys]\nmark = \"v\"\nfly = \"x\"", "line 3, column 1: unknown action 'fly'"),
        ] {
            let error = file::read(text).unwrap_err();
            assert!(error.starts_with(start), "{text}: {error}");
        }
        let config = file::read("[store]\ntls = \"verify\"\nca = \"/a.pem\"").unwrap();
        assert_eq!(config.store.tls, seckill_store::Tls::Verify);
    }

    #[test]
    fn invalid_theme_is_reported_with_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, "# mine\ntheme = \"dusk\"\n").unwrap();
        let config = Config::load(Some(&path)).unwrap();
        assert_eq!(config.theme.as_deref(), Some("dusk"));
        let error = config.theme_fault("unknown theme 'dusk'").message();
        let place = format!(
            "invalid config file {}: line 2, column 1: unknown theme 'dusk'",
            path.display()
        );
        assert!(error.contains(&place), "{error}");
        assert!(error.ends_with("'theme': default: theme = \"dark\""), "{error}");
    }

    #[test]
    fn errors_never_quote_the_file() {
        let error = file::read("redis = redis://u:secret@h").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
        for text in
            ["store = \"postgres://u:secret@h\"", "[store]\ntls = \"postgres://u:secret@h\""]
        {
            let error = file::read(text).unwrap_err();
            assert!(error.contains("must be") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn node_names_are_validated() {
        let named = |name: &str| Config { node: Some(name.into()), ..Config::default() };
        assert!(named("node-b.1").check().is_ok());
        for bad in ["", "a/b", "a b", &"x".repeat(65)] {
            assert!(named(bad).check().is_err(), "{bad}");
        }
    }
}
