//! Settings that installations have, and that the program has to work with.

use super::Kind::{self, MariaDb, MySql, PgBouncer, Postgres, Redis};
use crate::support::LOWER_CASE;

/// How the program reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// As a user who may do everything.
    Plain,
    /// As a user with the rights that the README names, or who may only read and write the rows of the tables.
    User,
    /// As a user who may create tables, and no more than that needs.
    Creator,
    /// With TLS, which the server requires.
    Tls,
    /// With TLS and a certificate of the client.
    ClientCertificate,
    /// Through a proxy that drops idle connections.
    Proxy,
    /// Through a pooler in this mode.
    Pool(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    kinds: &'static [Kind],
    /// Arguments of the server.
    pub(super) args: &'static [&'static str],
    pub(super) how: How,
    /// The first major version that has it.
    since: u32,
    /// Words of the error with which the program refuses it.
    pub(super) refused: Option<&'static str>,
}

const DEFAULTS: &str = "defaults";

const SETTINGS: &[Setting] = &[
    setting(DEFAULTS, &[Redis, MariaDb, MySql, Postgres], &[]),
    setting("io-threads", &[Redis], &["--io-threads", "4"]),
    setting("appendfsync always", &[Redis], &["--appendfsync", "always"]),
    setting(
        "rename-command",
        &[Redis],
        &["--rename-command", "CONFIG", "", "--rename-command", "KEYS", ""],
    ),
    setting("minimal ACL", &[Redis], &[]).how(How::User),
    setting("timeout", &[Redis], &["--timeout", "1"]),
    setting("ANSI sql_mode", SQL, &["--sql-mode=ANSI,TRADITIONAL,NO_BACKSLASH_ESCAPES"]),
    setting("ORACLE sql_mode", &[MariaDb], &["--sql-mode=ORACLE"]),
    setting("empty sql_mode", SQL, &["--sql-mode="]),
    setting("READ COMMITTED", SQL, &["--transaction-isolation=READ-COMMITTED"]),
    setting("SERIALIZABLE", SQL, &["--transaction-isolation=SERIALIZABLE"]),
    setting("required primary keys", &[MySql], &["--sql-require-primary-key=ON"]),
    setting("required primary keys", &[MariaDb], &["--innodb-force-primary-key=ON"]),
    setting("small packets", SQL, &["--max-allowed-packet=16K"]),
    setting("lower_case_table_names", SQL, &[LOWER_CASE]),
    setting(
        "increment of IDs",
        SQL,
        &["--auto-increment-increment=7", "--auto-increment-offset=3"],
    ),
    setting("binary log", &[MariaDb], &["--log-bin=log", "--binlog-format=MIXED", "--server-id=1"]),
    setting("binary log", &[MySql], &["--log-bin=log", "--server-id=1"]),
    setting(
        "binlog_format = STATEMENT",
        SQL,
        &["--log-bin=log", "--server-id=1", "--binlog-format=STATEMENT"],
    )
    .refused("set it to ROW or MIXED"),
    setting("MyISAM by default", SQL, &["--default-storage-engine=MyISAM"]),
    setting(
        "utf8mb3",
        SQL,
        &["--character-set-server=utf8mb3", "--collation-server=utf8mb3_turkish_ci"],
    ),
    setting("wait_timeout", SQL, &["--wait-timeout=1"]),
    setting("READ COMMITTED", &[Postgres], &["default_transaction_isolation=read committed"]),
    setting("REPEATABLE READ", &[Postgres], &["default_transaction_isolation=repeatable read"]),
    setting("SERIALIZABLE", &[Postgres], &["default_transaction_isolation=serializable"]),
    setting("idle_session_timeout", &[Postgres], &["idle_session_timeout=1s"]).since(14),
    setting(
        "limits of the server",
        &[Postgres],
        &["statement_timeout=5s", "lock_timeout=2s", "idle_in_transaction_session_timeout=5s"],
    ),
    setting("minimal grants", &[MariaDb, MySql, Postgres], &[]).how(How::User),
    setting("grants to create tables", &[MariaDb, MySql, Postgres], &[]).how(How::Creator),
    setting("TLS", &[Redis, MariaDb, MySql, Postgres], &[]).how(How::Tls),
    setting("TLS with client certificates", &[Redis, MariaDb, MySql, Postgres], &[])
        .how(How::ClientCertificate),
    setting("proxy that drops idle connections", &[Redis, MariaDb, MySql, Postgres], &[])
        .how(How::Proxy),
    setting("pool_mode = session", &[PgBouncer], &[]).how(How::Pool("session")),
    setting("empty server_reset_query", &[PgBouncer], &[])
        .how(How::Pool("session\nserver_reset_query ="))
        .refused("server_reset_query = DISCARD ALL"),
    setting("pool_mode = transaction", &[PgBouncer], &[])
        .how(How::Pool("transaction"))
        .refused("pool_mode = session"),
    setting("pool_mode = statement", &[PgBouncer], &[])
        .how(How::Pool("statement"))
        .refused("pool_mode = session"),
];

const SQL: &[Kind] = &[MariaDb, MySql];

const fn setting(
    name: &'static str,
    kinds: &'static [Kind],
    args: &'static [&'static str],
) -> Setting {
    Setting { name, kinds, args, how: How::Plain, since: 0, refused: None }
}

impl Setting {
    const fn how(self, how: How) -> Self {
        Self { how, ..self }
    }

    const fn since(self, since: u32) -> Self {
        Self { since, ..self }
    }

    const fn refused(self, words: &'static str) -> Self {
        Self { refused: Some(words), ..self }
    }

    pub(super) fn is_default(&self) -> bool {
        self.name == DEFAULTS
    }
}

/// Those of a kind of server of this major version.
pub(super) fn of(kind: Kind, major: u32) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(move |it| it.kinds.contains(&kind) && it.since <= major)
}
