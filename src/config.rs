//! Settings: defaults, then the file, then the environment, then flags.
//!
//! The command line hands over what environment and flags said; this room reads the file and
//! decides. It must not open anything but that file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{
    console::Keys,
    engine::settings::{MAX_PARTITIONS, Settings},
    store::Settings as StoreSettings,
};

/// What the program was told, from wherever.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where state is kept; `None` is the XDG data directory.
    pub data_dir: Option<PathBuf>,
    /// Redis to use; `None` is the program's own.
    pub redis: Option<String>,
    /// Database to use; `None` is SQLite in the data dir.
    pub database: Option<String>,
    /// Partitions of the order stream; `None` is what the deployment has, or 1.
    pub partitions: Option<u16>,
    /// Refuse every act that changes something.
    pub read_only: bool,
    /// This node's name; `None` is one that no other node on the data dir has.
    pub node: Option<String>,
    /// The console's theme: a built-in one or a file; `None` is the dark one.
    pub theme: Option<String>,
    /// Where the console's exports go; `None` is the working directory.
    pub export_dir: Option<PathBuf>,
    /// Settings of the engine.
    pub engine: Settings,
    /// Settings of the connections to the database.
    pub store: StoreSettings,
    /// Keys of the console.
    pub keys: Keys,
}

/// Why the settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file that was named can't be read.
    #[error("the config file {path} can't be read ({why}); check --config")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// The file is not understood.
    #[error("the config file {path} is not understood: {why}")]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// Where and what, on one line.
        why: String,
    },
    /// A value out of range.
    #[error("{0}")]
    Range(String),
}

impl Config {
    /// Reads `file`, or the default file if there is one. A file that was named must exist.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let default = default_file();
        let Some(path) = file.map(Path::to_path_buf).or(default.filter(|path| path.exists()))
        else {
            return Ok(Self::default());
        };
        let text = std::fs::read_to_string(&path)
            .map_err(|why| ConfigError::Unreadable { path: path.clone(), why })?;
        Self::parse(&text).map_err(|why| ConfigError::Invalid { path, why })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| one_line(text, &error))?;
        config.engine.check()?;
        config.store.check()?;
        config
            .keys
            .check()
            .map_err(|fault| format!("line {}: {fault}", line_of(text, fault.at)))?;
        Ok(config)
    }

    /// Refuses what can't be: numbers out of range, a node name that Redis keys can't hold.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.engine.check().map_err(ConfigError::Range)?;
        self.store.check().map_err(ConfigError::Range)?;
        let fine = |name: &String| {
            !name.is_empty()
                && name.len() <= 64
                && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
        };
        if let Some(partitions) = self.partitions.filter(|it| !(1..=MAX_PARTITIONS).contains(it)) {
            return Err(ConfigError::Range(format!(
                "partitions is {partitions}; it must lie within 1 and {MAX_PARTITIONS}"
            )));
        }
        match &self.node {
            Some(name) if !fine(name) => Err(ConfigError::Range(
                "node must be 1 to 64 letters, digits, '-', '_' or '.'".to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// The message with its line; the text around it may hold a password and is left out.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    format!("line {line}: {}", error.message().lines().next().unwrap_or_default())
}

/// The number of the line that a place in the text is on.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// `$XDG_CONFIG_HOME/seckill/config.toml`, else below `~/.config`.
fn default_file() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
    let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(base.join("seckill/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_overrides_defaults_and_typos_are_told() {
        let config = Config::parse("node = \"a\"\n[engine]\nqueue = 10\n").unwrap();
        assert_eq!((config.node.as_deref(), config.engine.queue), (Some("a"), 10));
        assert_eq!(config.engine.admission_batch, Settings::default().admission_batch);
        assert!(Config::parse("quue = 1").unwrap_err().starts_with("line 1:"));
        assert!(Config::parse("[engine]\nqueue = 0").unwrap_err().contains("engine.queue"));
        assert!(Config::parse("[store]\npool = 1").unwrap_err().contains("store.pool"));
        let told = Config::parse("node = \"a\"\n[keys]\nmark = \"v\"\nfly = \"x\"").unwrap_err();
        assert!(told.starts_with("line 4: there is no action 'fly'"), "{told}");
        assert!(Config::parse("[keys]\nmark = 5").unwrap_err().starts_with("line 2:"));
        let config = Config::parse("[store]\ntls = \"verify\"\nca = \"/a.pem\"").unwrap();
        assert_eq!(config.store.tls, crate::store::Tls::Verify);
    }

    #[test]
    fn an_error_never_quotes_the_file() {
        let error = Config::parse("redis = redis://u:secret@h").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn names_of_nodes_are_plain() {
        let named = |name: &str| Config { node: Some(name.into()), ..Config::default() };
        assert!(named("node-b.1").check().is_ok());
        for bad in ["", "a/b", "a b", &"x".repeat(65)] {
            assert!(named(bad).check().is_err(), "{bad}");
        }
    }
}
