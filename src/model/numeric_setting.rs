//! Numbers in the settings.

use std::ops::RangeInclusive;

/// A number in the settings.
#[derive(Clone, Debug)]
pub struct NumericSetting {
    /// Its name in the file, after those of its sections.
    pub name: &'static str,
    /// The current value.
    pub value: u64,
    /// The accepted values.
    pub range: RangeInclusive<u64>,
}

impl NumericSetting {
    /// The setting `name`.
    pub fn new(name: &'static str, value: u64, range: RangeInclusive<u64>) -> Self {
        Self { name, value, range }
    }
}
