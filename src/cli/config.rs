//! Settings: defaults, file, environment, flags; later ones take precedence.
//!
//! The command line passes in environment and flags; this module reads the file and merges them. It opens no other
//! file.

mod file;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use toml::Spanned;

use seckill_console::{
    Keys,
    settings::{self as messages, Position},
};
use seckill_engine::settings::{MAX_PARTITIONS, Settings};
use seckill_model::{
    OsError, OutOfRange,
    message::{Label, text},
};
use seckill_redis::{DataDirError, Redis, RedisError, data_dir::DataDir, server::ManagedServer};
use seckill_store::Settings as StoreSettings;

/// Merged settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Data directory; `None` is the XDG data directory.
    pub data_dir: Option<PathBuf>,
    /// Redis URL; `None` is the embedded server.
    pub redis: Option<String>,
    /// Trusted CA certificates (PEM) for an encrypted Redis; `None` is those of the system.
    pub redis_ca: Option<PathBuf>,
    /// Database URL; `None` is SQLite in the data dir.
    pub database: Option<String>,
    /// Number of partitions, each with its own order stream; `None` is the existing number, or 1.
    pub partitions: Option<u16>,
    /// Reject every command that changes something.
    pub read_only: bool,
    /// Name of this node; `None` is one that no other node on the data dir has.
    pub node: Option<String>,
    /// Theme of the console: a built-in one or a file; `None` is the dark one.
    pub theme: Option<Spanned<String>>,
    /// Where the theme is configured.
    #[serde(skip)]
    pub(crate) theme_at: Option<(PathBuf, Position)>,
    /// Directory of exports; `None` is the working directory.
    pub export_dir: Option<PathBuf>,
    /// Settings of the engine.
    pub engine: Settings,
    /// Settings of the connections to the database.
    pub store: StoreSettings,
    /// Keys of the console.
    pub keys: Keys,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A given file cannot be read.
    #[error(
        "{}",
        text!(
            "settings-cannot-read-config-file-check",
            path = .path.display(),
            why = OsError::of(.why)
        )
    )]
    Unreadable {
        /// Path.
        path: PathBuf,
        /// Error of the operating system.
        why: std::io::Error,
    },
    /// The file is invalid.
    #[error(
        "{}",
        text!("settings-invalid-config-file", path = .path.display(), why = .why)
    )]
    Invalid {
        /// Path.
        path: PathBuf,
        /// The errors, with their positions.
        why: String,
    },
    /// A value out of range.
    #[error(transparent)]
    Range(#[from] InvalidValue),
}

/// An invalid value.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct InvalidValue {
    /// Its name in the file.
    pub name: String,
    /// The error.
    pub why: String,
}

impl From<OutOfRange> for InvalidValue {
    fn from(fault: OutOfRange) -> Self {
        Self { why: fault.to_string(), name: fault.name }
    }
}

impl Config {
    /// Reads `file`, or the default file if it exists. A given file must exist.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let default = default_file();
        let Some(path) = file.map(Path::to_path_buf).or(default.filter(|path| path.exists()))
        else {
            return Ok(Self::default());
        };
        let bytes = std::fs::read(&path)
            .map_err(|why| ConfigError::Unreadable { path: path.clone(), why })?;
        let invalid = |why| ConfigError::Invalid { path: path.clone(), why };
        let text = file::text(bytes).map_err(invalid)?;
        let mut config = file::read(&text).map_err(invalid)?;
        let theme = config.theme.as_ref().map(|theme| theme.span().start);
        config.theme_at = theme.map(|at| (path.clone(), Position::of(text.as_bytes(), at)));
        Ok(config)
    }

    /// Opens the data directory.
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

    /// Error of the theme configured in the file, with its position.
    pub fn theme_fault(&self, why: &str) -> ConfigError {
        match self.theme_at.clone() {
            Some((path, position)) => {
                let why = text!(
                    "settings-without-the-setting-theme",
                    why,
                    instead = file::instead(&["theme".to_owned()])
                );
                ConfigError::Invalid { path, why: messages::at(position, &why) }
            }
            None => {
                ConfigError::Range(InvalidValue { name: "theme".to_owned(), why: why.to_owned() })
            }
        }
    }

    /// Rejects numbers out of range and node names that Redis keys cannot contain.
    pub fn check(&self) -> Result<(), InvalidValue> {
        self.engine.check()?;
        self.store.check()?;
        let fine = |name: &String| {
            !name.is_empty()
                && name.len() <= 64
                && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
        };
        let partitions = u64::from(self.partitions.unwrap_or(1));
        let ranges = [("partitions", partitions, 1, u64::from(MAX_PARTITIONS))];
        OutOfRange::check("", &ranges)?;
        match &self.node {
            Some(name) if !fine(name) => {
                let why = Label("settings-node-must-be-to-letters").to_owned();
                Err(InvalidValue { name: "node".to_owned(), why })
            }
            _ => Ok(()),
        }
    }
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
                "line 2, column 9: engine.queue must be a non-negative integer",
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
            ("store.pool = \"x\"", "line 1, column 14: store.pool must be a non-negative integer"),
            ("[store]\ntls = \"x\"", "line 2, column 7: store.tls must be one of \"off\", "),
            ("read_only = true\npartitions = 0", "line 2, column 1: partitions is 0"),
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
        assert_eq!(config.theme.as_ref().map(|it| it.get_ref().as_str()), Some("dusk"));
        let error = config.theme_fault("unknown theme 'dusk'").to_string();
        let place = format!(
            "invalid config file {}: line 2, column 9: unknown theme 'dusk'",
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
