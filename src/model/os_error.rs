//! Errors of the operating system, as data: the common ones are localized, others are quoted.

use std::io;

use serde::{Deserialize, Serialize};

use crate::{Reason, reason::reason};

/// Why a system call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, derive_more::Display)]
#[display("{}", self.reason())]
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

    /// Its message.
    fn reason(&self) -> Reason {
        match self {
            Self::Number(number) => {
                let error = io::Error::from_raw_os_error(*number);
                reason!("os-error", kind = format!("{:?}", error.kind()), text = error.to_string())
            }
            Self::Quoted(text) => text.into(),
        }
    }
}

impl From<OsError> for Reason {
    fn from(error: OsError) -> Self {
        error.reason()
    }
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
