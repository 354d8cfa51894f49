//! Users who log in, as in `tb_user`, and the tokens of operators.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::{Millis, Reason, UserId, control_chars::shortened, reason, sale::check_title};

/// A user, whose session contains the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User ID, assigned by the database.
    pub id: UserId,
    /// Name shown to others.
    pub nick_name: String,
    /// Picture.
    pub icon: String,
}

/// A mobile phone number in mainland China, by which a user logs in. Displayed without its middle.
#[derive(Clone, PartialEq, Eq)]
pub struct Phone(String);

impl Phone {
    /// All digits.
    pub fn digits(&self) -> &str {
        &self.0
    }
}

impl FromStr for Phone {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.as_bytes() {
            [b'1', b'3'..=b'9', rest @ ..]
                if rest.len() == 9 && rest.iter().all(u8::is_ascii_digit) =>
            {
                Ok(Self(text.to_owned()))
            }
            _ => Err(reason!("faults-phone", text = shortened(text, 20))),
        }
    }
}

impl fmt::Display for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.0.get(..3).unwrap_or(""), self.0.get(7..).unwrap_or(""));
        write!(f, "{start}****{end}")
    }
}

impl fmt::Debug for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the holder of a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", parse_err_ty = Reason, parse_err_fn = unknown_role)]
pub enum Role {
    /// Create and change vouchers.
    Operator,
}

fn unknown_role(text: &str) -> Reason {
    reason!("faults-role", text = shortened(text, 30))
}

/// A token, without the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Token {
    /// Its number, by which it is revoked.
    pub id: u64,
    /// What its holder may do.
    pub role: Role,
    /// Who holds it; appears in the audit log.
    pub name: String,
    /// When it was created.
    pub create_time: Millis,
    /// When it was revoked; `None` while it is valid.
    pub revoke_time: Option<Millis>,
}

/// Trims the name of a token, and rejects one that cannot be displayed.
pub fn check_name(name: &str) -> Result<String, Reason> {
    check_title(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phone_is_a_mobile_number_and_is_shown_without_its_middle() {
        let phone: Phone = "13812345678".parse().unwrap();
        assert_eq!((phone.digits(), phone.to_string()), ("13812345678", "138****5678".into()));
        assert_eq!(format!("{phone:?}"), "138****5678");
        for bad in ["", "1", "12812345678", "1381234567", "138123456789", "1381234567x", "一三八"]
        {
            assert!(bad.parse::<Phone>().is_err(), "{bad}");
        }
    }
}
