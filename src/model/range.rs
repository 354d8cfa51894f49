//! A number that lies outside its range; it must not know what the number is for.

use thiserror::Error;

use super::message::text;

/// A setting that no program can work with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{}",
    text!("faults-range", name = .name, value = .value, least = .least, most = .most)
)]
pub struct OutOfRange {
    /// Its name in the settings.
    pub name: String,
    /// What it is.
    pub value: u64,
    /// The least that it may be.
    pub least: u64,
    /// The most that it may be.
    pub most: u64,
}

impl OutOfRange {
    /// Refuses the first of these settings of `section` whose value, the second of four, does not lie between the
    /// third and the last.
    ///
    /// # Errors
    /// That setting.
    pub fn check(section: &str, ranges: &[(&str, u64, u64, u64)]) -> Result<(), Self> {
        match ranges.iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
            Some(&(name, value, least, most)) => {
                Err(Self { name: format!("{section}{name}"), value, least, most })
            }
            None => Ok(()),
        }
    }
}
