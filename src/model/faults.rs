//! Fault points: named places on the path of an order where a test terminates its own process.
//!
//! A debug build reads once, from `SECKILL_KILL_AT=POINT:NTH`, at which pass of which point it dies. A release build
//! contains none of this: it depends on `debug_assertions`, not on a crate feature that could be enabled in a release.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// A point between two steps of which the second completes the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Point {
    /// The admission script ran, and no buyer has a reply yet.
    AfterAdmission,
    /// Entries were delivered but not processed.
    AfterRead,
    /// Entries were claimed from another consumer.
    AfterClaim,
    /// A transaction is complete but not committed.
    BeforeCommit,
    /// Orders were committed, and their entries are pending.
    BeforeAck,
    /// Entries were acknowledged.
    AfterAck,
    /// An entry is about to become a dead letter.
    BeforeBurial,
    /// It has become one.
    AfterBurial,
    /// Orders were closed in SQL but not in Redis.
    AfterClosing,
    /// Redis has the stock back, and SQL has no record of that.
    AfterGiveBack,
    /// A sale is in SQL but not in Redis.
    AfterSaleCommit,
    /// A change of a sale is in SQL but not in Redis.
    AfterChangeCommit,
    /// Stock was removed in Redis but not in SQL.
    AfterCut,
    /// A sale's buyers are restored in Redis, and the sale is still paused.
    MidReconciliation,
    /// Lost orders are in the stream again, and the entries that lost their bodies are pending.
    AfterRebuild,
    /// A step of moving a sale to or from another service is complete.
    MigrationStep,
}

impl Point {
    /// The points of the path of an order, in its order.
    pub const ALL: &'static [Self] = match <Self as VariantArray>::VARIANTS {
        [path @ .., Self::MigrationStep] => path,
        all => all,
    };

    /// Its name in `SECKILL_KILL_AT`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Environment variable with the point at which the process dies.
pub const KILL_AT: &str = "SECKILL_KILL_AT";

#[cfg(debug_assertions)]
pub use armed::pass;

/// Passes a point: does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn pass(_: Point) {}

#[cfg(debug_assertions)]
mod armed {
    use std::{
        io::Write as _,
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
    };

    use rustix::process::{Signal, getpid, kill_process};

    use super::{KILL_AT, Point};

    static PLAN: LazyLock<Option<(Point, u64)>> = LazyLock::new(|| {
        let setting = std::env::var(KILL_AT).ok()?;
        let plan = read(&setting);
        if plan.is_none() {
            // A test must not pass because of a typo in its point.
            let _ = writeln!(std::io::stderr(), "{KILL_AT}={setting} is not POINT:NTH");
            std::process::abort();
        }
        plan
    });
    static PASSED: AtomicU64 = AtomicU64::new(0);

    pub(super) fn read(setting: &str) -> Option<(Point, u64)> {
        let (name, nth) = setting.split_once(':')?;
        Some((name.parse().ok()?, nth.parse().ok().filter(|nth| *nth > 0)?))
    }

    /// Passes a point; does not return if this is the configured pass.
    pub fn pass(point: Point) {
        let Some((_, nth)) = PLAN.filter(|(at, _)| *at == point) else { return };
        if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == nth {
            let _ = kill_process(getpid(), Signal::KILL);
            loop {
                std::thread::park();
            }
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{Point, armed::read};

    #[test]
    fn point_names_are_unique_and_parsed() {
        for point in Point::ALL {
            assert_eq!(read(&format!("{}:3", point.name())), Some((*point, 3)));
        }
        for bad in ["", "before-ack", "before-ack:0", "before-ack:x", "nowhere:1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
