//! The time zone of a deployment: cron expressions are due by it on every node, whatever the zone of a host.

use std::str::FromStr;

use jiff::{Timestamp, tz::TimeZone};
use seckill_model::{Millis, Reason, reason::reason, serde_as_text};
use seckill_store::SharedStore;

use crate::{EngineError, Result};

/// Key of its name among the settings in SQL.
const SETTING: &str = "time_zone";

/// Changes of the offset that are compared: those of the next years.
const CHANGES: usize = 8;

/// A time zone with a name in the IANA database, for example `Asia/Shanghai`.
#[derive(Clone, Debug, PartialEq, derive_more::Display)]
#[display("{}", _0.iana_name().unwrap_or("UTC"))]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of this host; UTC if it has none with a name.
    pub fn of_host() -> Self {
        let zone = TimeZone::system();
        Self(if zone.iana_name().is_some() && !zone.is_unknown() { zone } else { TimeZone::UTC })
    }

    pub(crate) fn get(&self) -> &TimeZone {
        &self.0
    }

    /// Whether both have the same offset at each time from `now` on, as far as their next changes show: a zone may have
    /// several names.
    pub(crate) fn is_like(&self, other: &Self, now: Millis) -> bool {
        let Ok(now) = Timestamp::from_millisecond(now.0) else { return self == other };
        let changes = |Self(zone): &Self| {
            let next = zone.following(now).take(CHANGES);
            let next: Vec<_> = next.map(|it| (it.timestamp(), it.offset())).collect();
            (zone.to_offset(now), next)
        };
        changes(self) == changes(other)
    }
}

impl FromStr for Zone {
    type Err = Reason;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let zone = TimeZone::get(name).ok().filter(|zone| !zone.is_unknown());
        zone.map(Self).ok_or_else(|| reason!("schedule-zone-unknown", name))
    }
}

serde_as_text!(Zone);

/// The zone of the deployment; that of this host before a node has started.
///
/// # Errors
/// SQL is unreachable, or has a zone that this host does not know.
pub async fn of(store: &SharedStore) -> Result<Zone> {
    match store.setting(SETTING).await? {
        Some(name) => name.parse().map_err(EngineError::Rejected),
        None => Ok(Zone::of_host()),
    }
}

/// Stores `wanted` as the zone of the deployment, or that of this host if there is none yet. Other nodes follow it within
/// seconds. Returns the zone that was changed to another one, and that one.
pub(crate) async fn agree(
    store: &SharedStore,
    wanted: Option<&Zone>,
) -> Result<Option<(String, String)>> {
    let stored = store.setting(SETTING).await?;
    let wanted = match (wanted, &stored) {
        (Some(wanted), _) => wanted.to_string(),
        (None, Some(_)) => return Ok(None),
        (None, None) => Zone::of_host().to_string(),
    };
    if stored.as_ref() != Some(&wanted) {
        // Unless another node has changed it since.
        let is_changed = store.change_setting(SETTING, stored.as_deref(), &wanted).await?;
        return Ok(stored.filter(|_| is_changed).map(|former| (former, wanted)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_with_the_same_rules_are_alike() {
        let alike = |one: &str, other: &str| {
            one.parse::<Zone>().unwrap().is_like(&other.parse().unwrap(), Millis(1_795_000_000_000))
        };
        for (one, other) in [
            ("UTC", "Etc/UTC"),
            ("Asia/Kolkata", "Asia/Calcutta"),
            ("PRC", "Asia/Shanghai"),
            ("Europe/Berlin", "Europe/Paris"),
        ] {
            assert!(alike(one, other), "{one} {other}");
        }
        for (one, other) in [("UTC", "Europe/London"), ("Asia/Kolkata", "Asia/Shanghai")] {
            assert!(!alike(one, other), "{one} {other}");
        }
    }

    #[test]
    fn a_zone_has_a_name_of_the_database() {
        for name in ["UTC", "Asia/Kolkata", "Europe/Berlin"] {
            assert_eq!(name.parse::<Zone>().unwrap().to_string(), name);
        }
        for name in ["", "Asia/Beijing", "Etc/Unknown", "+08:00", "CST-8"] {
            assert!(name.parse::<Zone>().is_err(), "{name}");
        }
    }
}
