//! Settings: defaults, file, environment, flags; later ones take precedence.
//!
//! The command line passes in environment and flags; this module reads the file and merges them. It opens no other
//! file.

pub(crate) mod file;

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    sync::Arc,
};

use seckill_console::Keys;
use seckill_engine::deployment::settings::{MAX_PARTITIONS, Settings};
use seckill_http::HttpSettings;
use seckill_model::{Label, NumericSetting, OsError, message::Lines, text};
use seckill_redis::{
    DataDirError, Redis, RedisError,
    data_dir::DataDir,
    server::ManagedServer,
    tls::{self, TlsFiles},
};
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
    /// Trusted CA certificates (PEM) for TLS connections to Redis; `None` is those of the system.
    pub(crate) redis_ca: Option<PathBuf>,
    /// Certificate of this client (PEM) for TLS connections to Redis.
    pub(crate) redis_cert: Option<PathBuf>,
    /// Private key (PEM) of that certificate.
    pub(crate) redis_key: Option<PathBuf>,
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
    /// Mask user IDs in the console, its copies and exports.
    pub(crate) mask_users: bool,
    pub(crate) engine: Settings,
    /// Settings of `seckill serve`.
    pub(crate) http: HttpSettings,
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
    /// The same with a temporary data directory and the servers in it.
    pub(crate) fn without_servers(&self) -> Self {
        let none = Self { data_dir: None, redis: None, database: None, ..self.clone() };
        Self { redis_ca: None, redis_cert: None, redis_key: None, ..none }
    }

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
    pub(crate) fn redis(&self, dir: &DataDir) -> Result<Redis> {
        let Some(url) = &self.redis else {
            if self.redis_tls().is_given() {
                return Err(tls::unused().into());
            }
            let server = ManagedServer::attach(dir).map_err(RedisError::from)?;
            return Ok(Redis::from_managed(Arc::new(server))?);
        };
        Ok(self.redis_at(url)?.used_from(dir))
    }

    /// Redis at this URL, which the settings name.
    pub(crate) fn redis_at(&self, url: &str) -> Result<Redis> {
        // Separates errors of the URL from those of the certificates.
        Redis::from_url(url).map_err(|error| self.value_error("redis", url, error))?;
        Ok(Redis::with_tls(url, &self.redis_tls())?)
    }

    fn redis_tls(&self) -> TlsFiles {
        let (ca, cert, key) =
            (self.redis_ca.clone(), self.redis_cert.clone(), self.redis_key.clone());
        TlsFiles { ca, cert, key }
    }

    /// The checked URL of the database: the configured one, or that of the file in the data directory.
    pub(crate) fn database_url(&self, dir: &DataDir) -> Result<String> {
        let Some(url) = &self.database else { return Ok(dir.database_url()) };
        seckill_store::check_url(url, &self.store)
            .map_err(|error| self.value_error("database", url, error))?;
        Ok(url.clone())
    }

    /// Error of a text in use, with its position if it is in the file; an option may override the file.
    pub(crate) fn value_error<E: Display + Into<CliError>>(
        &self,
        name: &'static str,
        value: &str,
        error: E,
    ) -> CliError {
        let in_file = |(path, text): &(PathBuf, String)| {
            Some(invalid(path, &file::value_error(text, name, value, &error)?))
        };
        self.source.as_ref().and_then(in_file).unwrap_or_else(|| error.into())
    }

    /// The numbers of all sections.
    fn numbers(&self) -> impl Iterator<Item = NumericSetting> {
        let partitions = u64::from(self.partitions.unwrap_or(1));
        let partitions = ("partitions", partitions, 1..=u64::from(MAX_PARTITIONS));
        let engine = self.engine.numbers().into_iter().chain(self.engine.jobs.numbers());
        let others = self.http.numbers().into_iter().chain(self.store.numbers());
        std::iter::once(partitions).chain(engine).chain(others)
    }

    /// Rejects numbers out of range, and node names that Redis keys cannot contain.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        for (name, value, range) in self.numbers() {
            if !range.contains(&value) {
                let (least, most) = range.into_inner();
                return Err((name, text!("faults-range", name, value, least, most)));
            }
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
    CliError::list(text!("settings-invalid-config-file", path = path.display(), why = Lines(why)))
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
            ("[engine]\nqueue = 0", "line 2, column 9: engine.queue is 0"),
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
            ("\n[store]\npool = 1", "line 3, column 8: store.pool is 1"),
            (
                "store.pool = \"x\"",
                "line 1, column 14: store.pool must be an integer from 2 to 1,000;",
            ),
            ("[store]\ntls = \"x\"", "line 2, column 7: store.tls must be one of \"off\", "),
            ("read_only = true\npartitions = 0", "line 2, column 14: partitions is 0"),
            (
                "partitions = 99999",
                "line 1, column 14: partitions must be an integer from 1 to 64;",
            ),
            (
                "[engine.jobs]\nkeep_dead_entries = -1",
                "line 2, column 21: engine.jobs.keep_dead_entries must be an integer from 0 to \
                 9,223,372,036,854,775,807;",
            ),
            ("\n\nnode = \"a b\"", "line 3, column 8: node must be"),
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
    fn quoted_names_with_dots_are_not_sections() {
        let sections = "use one of data_dir, redis, ";
        for (text, errors) in [
            (
                "\"a.b\" = 3\nqueue = 1",
                &[
                    "1, column 1: unknown setting '\"a.b\"';",
                    "2, column 1: unknown setting 'queue';",
                ][..],
            ),
            (
                "\"engine.queue\" = 3\n[engine]\nqueue = 5",
                &["1, column 1: unknown setting '\"engine.queue\"';"],
            ),
            (
                "\"engine.queue\" = 3\n\"\" = 1\n[engine]\nqueue = 0",
                &[
                    "1, column 1: unknown setting '\"engine.queue\"';",
                    "2, column 1: unknown setting '\"\"';",
                    "4, column 9: engine.queue is 0;",
                ],
            ),
        ] {
            let error = file::read(text).unwrap_err();
            let lines = error.lines().filter_map(|line| line.trim_start().strip_prefix("line "));
            let lines: Vec<&str> = lines.collect();
            assert_eq!(lines.len(), errors.len(), "{error}");
            for (line, start) in lines.iter().zip(errors) {
                assert!(line.starts_with(start), "{line}");
                assert!(line.contains(sections) || line.contains("is 0"), "{line}");
            }
        }
    }

    #[test]
    fn values_that_cannot_be_used_are_reported_with_their_position() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(dir.path().join("data")).unwrap();
        let path = dir.path().join("config.toml");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Config::load(Some(&path)).unwrap()
        };
        let place = |error: &CliError, place: &str| {
            let start = format!("invalid config file {}: {place}: ", path.display());
            assert_eq!(error.code, crate::error::USAGE);
            let message = error.message();
            let rest = message.strip_prefix(&start);
            rest.unwrap_or_else(|| panic!("{place}: {message}")).to_owned()
        };
        let config = load("# mine\ntheme = \"dusk\"\n");
        let unknown = || seckill_console::Palette::load("dusk").unwrap_err();
        let error = place(&config.value_error("theme", "dusk", unknown()), "line 2, column 9");
        assert!(error.starts_with("unknown theme 'dusk'"), "{error}");
        assert!(error.ends_with("or remove 'theme' (default: theme = \"dark\")"), "{error}");

        let mut config = load("\nredis = \"localhost\"");
        let error = place(&config.redis(&data).unwrap_err(), "line 2, column 9");
        assert!(error.starts_with("a Redis URL starts with"), "{error}");
        assert!(error.ends_with("or remove 'redis' (default: the embedded Redis)"), "{error}");
        config.redis = Some("redis://127.0.0.1".to_owned());
        assert!(config.redis(&data).is_ok());
        config.redis = Some("elsewhere".to_owned());
        let error = config.redis(&data).unwrap_err();
        assert!(error.code == crate::error::USAGE && !error.message().contains("line"), "{error}");

        for url in ["oracle://h/d", "mysql://h/d?ssl-mode=x"] {
            let config = load(&format!("database = \"{url}\""));
            let error = place(&config.database_url(&data).unwrap_err(), "line 1, column 12");
            assert!(error.matches("correct").count() <= 1, "{error}");
        }
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

    proptest::proptest! {
        #[test]
        fn any_text_is_a_configuration_or_its_errors(
            text: String,
            section in "(engine|engine.jobs|http|store|keys|[a-z]{0,5})",
            name in "(pool|time_zone|close_overdue|trusted_proxies|partitions|quit|[a-z_]{1,9})",
            value in "(-?[0-9]{1,25}|\"[ -~]{0,20}\"|[tf][a-z]{3}|\\[.{0,9}\\]|.{0,9})",
        ) {
            let _ = file::read(&text);
            if let Err(errors) = file::read(&format!("[{section}]\n{name} = {value}\n")) {
                proptest::prop_assert!(!errors.is_empty());
            }
        }
    }
}
