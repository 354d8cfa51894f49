//! Vouchers of both kinds: what `tb_voucher` holds of them. What a flash sale adds is in [`super::sale`].

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation as _;

use super::{SaleFault, VoucherId, sale::check_title, steers};

/// Longest rules, in characters as a person counts them.
pub const MAX_RULES: usize = 1_000;
/// Longest rules in bytes: one visible character may be many code points.
pub const MAX_RULES_BYTES: usize = 16_000;

/// Whether a voucher is on offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VoucherStatus {
    /// It can be bought.
    #[default]
    On,
    /// It was taken off the shelf.
    Off,
    /// Its time is over.
    Expired,
}

impl VoucherStatus {
    const ALL: [Self; 3] = [Self::On, Self::Off, Self::Expired];

    /// The number that SQL keeps.
    pub fn code(self) -> i64 {
        match self {
            Self::On => 1,
            Self::Off => 2,
            Self::Expired => 3,
        }
    }

    /// The status of a number, if there is one.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }

    /// The word that JSON and the command line have.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for VoucherStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for VoucherStatus {
    type Err = SaleFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|status| status.as_str() == text);
        known.ok_or_else(|| SaleFault::VoucherStatus(text.chars().take(30).collect()))
    }
}

/// What is printed on a voucher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoucherDetails {
    /// What buyers read.
    pub title: String,
    /// The shop that honours it.
    pub shop_id: Option<u64>,
    /// A second line under the title.
    pub sub_title: Option<String>,
    /// Terms of use, in one line or several.
    pub rules: Option<String>,
    /// What the buyer pays, in cents.
    pub pay_value: u64,
    /// What it is worth in the shop, in cents.
    pub actual_value: u64,
    /// Whether it is on offer.
    pub status: VoucherStatus,
}

impl VoucherDetails {
    /// Only a title; it is on offer.
    pub fn titled(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Checks what a person asked for, and trims the texts.
    ///
    /// # Errors
    /// [`SaleFault`] names the first thing that is wrong.
    pub fn checked(self) -> Result<Self, SaleFault> {
        let title = check_title(&self.title)?;
        let sub_title = self.sub_title.map(|text| check_title(&text)).transpose();
        let sub_title = sub_title.map_err(|_| SaleFault::SubTitle)?;
        let rules = self.rules.map(|text| check_rules(&text)).transpose()?;
        Ok(Self { title, sub_title, rules, ..self })
    }
}

fn check_rules(rules: &str) -> Result<String, SaleFault> {
    let rules = rules.trim();
    let fits = (1..=MAX_RULES).contains(&rules.graphemes(true).count())
        && rules.len() <= MAX_RULES_BYTES
        && !rules.chars().any(|c| steers(c) && c != '\n');
    if fits { Ok(rules.to_owned()) } else { Err(SaleFault::Rules) }
}

/// A voucher of either kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Voucher {
    /// Its number.
    pub id: VoucherId,
    /// It has neither stock nor window, so no sale.
    pub ordinary: bool,
    /// What is printed on it.
    #[serde(flatten)]
    pub details: VoucherDetails,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_what_it_prints() {
        for status in VoucherStatus::ALL {
            assert_eq!(status.to_string().parse(), Ok(status));
            assert_eq!(VoucherStatus::from_code(status.code()), Some(status));
        }
        assert!("ON".parse::<VoucherStatus>().is_err() && VoucherStatus::from_code(0).is_none());
    }

    #[test]
    fn texts_are_trimmed_and_bounded() {
        let of = |sub: &str, rules: &str| {
            let (sub_title, rules) = (Some(sub.to_owned()), Some(rules.to_owned()));
            VoucherDetails { sub_title, rules, ..VoucherDetails::titled(" tea ") }.checked()
        };
        let kept = of(" weekdays ", " one a table\nno cash \n").unwrap();
        assert_eq!((kept.title.as_str(), kept.sub_title.as_deref()), ("tea", Some("weekdays")));
        assert_eq!(kept.rules.as_deref(), Some("one a table\nno cash"));
        for bad in [" ", "a\nb", &"锅".repeat(61)] {
            assert_eq!(of(bad, "r"), Err(SaleFault::SubTitle), "{bad}");
        }
        for bad in [" ", "a\u{1b}[2J", &"锅".repeat(MAX_RULES + 1)] {
            assert_eq!(of("s", bad), Err(SaleFault::Rules), "{bad}");
        }
    }
}
