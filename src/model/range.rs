//! A number outside its range.

use thiserror::Error;

use super::message::text;

/// A setting outside its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{}",
    text!("faults-range", name = .name, value = .value, least = .least, most = .most)
)]
pub struct OutOfRange {
    /// Its name in the settings.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// The minimum.
    pub least: u64,
    /// The maximum.
    pub most: u64,
}

impl OutOfRange {
    /// Rejects the first of these settings of `section` (name, value, minimum, maximum) whose value is out of range.
    pub fn check(section: &str, ranges: &[(&str, u64, u64, u64)]) -> Result<(), Self> {
        match ranges.iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
            Some(&(name, value, least, most)) => {
                Err(Self { name: format!("{section}{name}"), value, least, most })
            }
            None => Ok(()),
        }
    }
}
