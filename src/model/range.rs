//! Numbers in the settings.

/// A number in the settings: its name, its value, and the smallest and the largest one accepted.
pub type Range = (&'static str, u64, u64, u64);
