//! Errors of the operating system, as data: the common ones are localized, others are quoted.

use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::Label;

/// Why a system call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OsError {
    /// By error number.
    Number(i32),
    /// Message of a library.
    Quoted(String),
}

impl<E: Into<io::Error>> From<E> for OsError {
    fn from(error: E) -> Self {
        Self::of(&error.into())
    }
}

impl OsError {
    /// The error number, if there is one.
    pub fn of(error: &io::Error) -> Self {
        error.raw_os_error().map_or_else(|| Self::Quoted(error.to_string()), Self::Number)
    }

    /// Its message, if it is a common one.
    pub(crate) fn label(&self) -> Option<Label> {
        match self {
            Self::Number(number) => label(io::Error::from_raw_os_error(*number).kind()),
            Self::Quoted(_) => None,
        }
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.label()) {
            (_, Some(label)) => label.fmt(f),
            (Self::Number(number), None) => io::Error::from_raw_os_error(*number).fmt(f),
            (Self::Quoted(text), None) => f.write_str(text),
        }
    }
}

fn label(kind: io::ErrorKind) -> Option<Label> {
    use io::ErrorKind as Kind;
    Some(match kind {
        Kind::NotFound => Label("os-not-found"),
        Kind::PermissionDenied => Label("os-permission-denied"),
        Kind::AlreadyExists => Label("os-already-exists"),
        Kind::NotADirectory => Label("os-not-a-directory"),
        Kind::IsADirectory => Label("os-is-a-directory"),
        Kind::DirectoryNotEmpty => Label("os-directory-not-empty"),
        Kind::ReadOnlyFilesystem => Label("os-read-only-file-system"),
        Kind::StorageFull => Label("os-disk-full"),
        Kind::QuotaExceeded => Label("os-quota-exceeded"),
        Kind::FileTooLarge => Label("os-file-too-large"),
        Kind::InvalidFilename => Label("os-invalid-file-name"),
        Kind::ResourceBusy => Label("os-busy"),
        Kind::InvalidInput => Label("os-invalid-argument"),
        Kind::OutOfMemory => Label("os-out-of-memory"),
        Kind::ConnectionRefused => Label("os-connection-refused"),
        Kind::ConnectionReset => Label("os-connection-reset"),
        Kind::ConnectionAborted => Label("os-connection-aborted"),
        Kind::NotConnected => Label("os-not-connected"),
        Kind::BrokenPipe => Label("os-broken-pipe"),
        Kind::TimedOut => Label("os-timed-out"),
        Kind::HostUnreachable => Label("os-host-unreachable"),
        Kind::NetworkUnreachable => Label("os-network-unreachable"),
        Kind::NetworkDown => Label("os-network-down"),
        Kind::AddrInUse => Label("os-address-in-use"),
        Kind::AddrNotAvailable => Label("os-address-not-available"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locale::set_thread_language;

    #[test]
    fn common_errors_are_localized_and_others_quoted() {
        for (number, english, chinese) in [
            (111, "connection refused", "连接被拒绝"),
            (2, "no such file or directory", "文件或目录不存在"),
            (5, "Input/output error (os error 5)", "Input/output error (os error 5)"),
        ] {
            let error = OsError::Number(number);
            set_thread_language("en");
            assert_eq!(error.to_string(), english);
            set_thread_language("zh");
            assert_eq!(error.to_string(), chinese);
        }
        assert_eq!(OsError::from(io::Error::other("no more")), OsError::Quoted("no more".into()));
    }
}
