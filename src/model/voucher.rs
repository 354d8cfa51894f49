//! Vouchers of both kinds, as in `tb_voucher`. The additional data of flash sales is in [`super::sale`].

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation as _;

use crate::{
    Reason, VoucherId,
    control_chars::{is_display_control, shortened},
    reason,
    sale::{MAX_TITLE, check_title},
};

/// Longest terms of use, in visible characters.
pub const MAX_RULES: usize = 1_000;
/// Longest terms of use in bytes, since one visible character may be many code points.
pub const MAX_RULES_BYTES: usize = 16_000;

/// Availability of a voucher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::FromRepr, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", parse_err_ty = Reason, parse_err_fn = unknown_status)]
#[repr(i64)]
pub enum VoucherStatus {
    /// It can be bought.
    #[default]
    On = 1,
    /// Taken off the shelf.
    Off = 2,
    /// Expired.
    Expired = 3,
}

fn unknown_status(text: &str) -> Reason {
    reason!("faults-voucher-status", text = shortened(text, 30))
}

/// Content of a voucher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoucherDetails {
    /// Title shown to buyers.
    pub title: String,
    /// Shop that accepts it.
    pub shop_id: Option<u64>,
    /// Subtitle.
    pub sub_title: Option<String>,
    /// Terms of use, one or more lines.
    pub rules: Option<String>,
    /// Price in cents.
    pub pay_value: u64,
    /// Face value in cents.
    pub actual_value: u64,
    /// Availability.
    pub status: VoucherStatus,
}

impl VoucherDetails {
    /// Returns an available voucher with only a title.
    pub fn titled(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Validates the content and trims the texts.
    pub fn checked(self) -> Result<Self, Reason> {
        let title = check_title(&self.title)?;
        let sub_title = self.sub_title.map(|text| check_title(&text)).transpose();
        let sub_title = sub_title.map_err(|_| reason!("faults-sub-title", most = MAX_TITLE))?;
        let rules = self.rules.map(|text| check_rules(&text)).transpose()?;
        Ok(Self { title, sub_title, rules, ..self })
    }
}

fn check_rules(rules: &str) -> Result<String, Reason> {
    let rules = rules.trim();
    let fits = (1..=MAX_RULES).contains(&rules.graphemes(true).count())
        && rules.len() <= MAX_RULES_BYTES
        && !rules.chars().any(|c| is_display_control(c) && c != '\n');
    if fits { Ok(rules.to_owned()) } else { Err(reason!("faults-rules", most = MAX_RULES)) }
}

/// Kind of a voucher; the numbers are those in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display, strum::FromRepr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[repr(i64)]
pub enum VoucherKind {
    /// Without stock or time window, and therefore without a sale.
    Ordinary = 0,
    /// With a sale.
    Sale = 1,
}

/// A voucher of either kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Voucher {
    /// Voucher ID.
    pub voucher_id: VoucherId,
    /// Its kind.
    pub kind: VoucherKind,
    /// Its content.
    #[serde(flatten)]
    pub details: VoucherDetails,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_round_trips() {
        for status in [VoucherStatus::On, VoucherStatus::Off, VoucherStatus::Expired] {
            assert_eq!(status.to_string().parse(), Ok(status));
            assert_eq!(VoucherStatus::from_repr(status as i64), Some(status));
        }
        assert!("ON".parse::<VoucherStatus>().is_err() && VoucherStatus::from_repr(0).is_none());
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
            assert_eq!(of(bad, "r"), Err(reason!("faults-sub-title", most = MAX_TITLE)), "{bad}");
        }
        for bad in [" ", "a\u{1b}[2J", &"锅".repeat(MAX_RULES + 1)] {
            assert_eq!(of("s", bad), Err(reason!("faults-rules", most = MAX_RULES)), "{bad}");
        }
    }
}
