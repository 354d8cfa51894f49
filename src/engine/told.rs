//! What a line of the log says, as data: how an act went or what befell, and on what.
//!
//! English is told here, as the command line prints it. A console tells the data in its own language.

use std::fmt;

use seckill_model::{
    EntryId, JobOutcome, Millis, Said, VoucherDetails, VoucherId, counted,
    ledger::{Finding, SaleFinding},
};
use serde::{Deserialize, Serialize};

use super::{audit_record, command::Reply, jobs::JobSaid, mend::Mended, refusal::Refusal};
use crate::telemetry::{data_loss::Healed, read_error::Unread};

/// How an act went, or what befell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The act has begun; another line tells its end.
    Begun,
    /// What it brought about.
    Done(Reply),
    /// The job ran.
    Ran {
        /// How it ended.
        outcome: JobOutcome,
        /// How long it took, in milliseconds.
        took_ms: u64,
        /// What it says of itself.
        said: Option<JobSaid>,
    },
    /// Why it was not done.
    Failed(Refusal),
    /// It was done, and there is no more to say.
    Finished,
    /// A server, in its words.
    Words(String),
    /// Why a server was not read.
    Unread(Unread),
    /// It lasted so long, in milliseconds.
    Lasted(u64),
    /// The books are off.
    Off(SaleFinding),
    /// A dead consumer holds so many entries.
    DeadHolds(u64),
    /// One of no node that is known does.
    StrangerHolds(u64),
    /// A silent one does.
    SilentHolds(u64),
    /// So many entries wait for a consumer.
    LagStands(u64),
    /// The last run of a job failed.
    RunFailed,
    /// So many dead letters wait.
    Letters(u64),
    /// The group is gone.
    GroupGone,
    /// A key holds this, which another program has written.
    Holds(String),
    /// A node sent no heartbeat for so many milliseconds.
    NoHeartbeat(u64),
    /// So many lines are in the log file alone.
    LeftOut(u32),
    /// A node stopped in order.
    InOrder,
    /// Redis was given back what it had lost.
    Healed(Healed),
    /// A fault of a partition was repaired.
    Mended(Mended),
}

fn entries(count: u64) -> String {
    counted(count, "entry", "entries")
}

impl Told {
    /// How an act went.
    pub fn of(reply: &Reply) -> Self {
        match reply {
            Reply::JobRun { end, .. } => {
                let said = end.detail.as_ref().and_then(Said::data);
                Self::Ran { outcome: end.outcome, took_ms: end.took_ms, said }
            }
            // Those that changed are in the log file; a thousand of them have no room here.
            Reply::Replayed(report) => {
                let report = super::command::ReplayReport { changes: Vec::new(), ..report.clone() };
                Self::Done(Reply::Replayed(report))
            }
            other => Self::Done(other.clone()),
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun => f.write_str("begun"),
            Self::Done(reply) => f.write_str(&audit_record::told(reply)),
            Self::Ran { outcome, took_ms, said } => {
                let said = said.as_ref().map(ToString::to_string).unwrap_or_default();
                write!(f, "{outcome} after {took_ms} ms: {said}")
            }
            Self::Failed(why) => write!(f, "failed: {why}"),
            Self::Finished => f.write_str("done"),
            Self::Words(words) => f.write_str(words),
            Self::Unread(why) => why.fmt(f),
            Self::Lasted(millis) => write!(f, "after {:.1} s", *millis as f64 / 1_000.0),
            Self::Off(finding) => write!(f, "off: {finding}"),
            Self::DeadHolds(pending) => write!(f, "dead, holds {}", entries(*pending)),
            Self::StrangerHolds(pending) => {
                write!(f, "no node that is known, holds {}", entries(*pending))
            }
            Self::LagStands(lag) => {
                write!(
                    f,
                    "{} hardly worked off",
                    counted(*lag, "entry waits and is", "entries wait and are")
                )
            }
            Self::RunFailed => f.write_str("its last run failed"),
            Self::SilentHolds(pending) => write!(f, "silent, holds {}", entries(*pending)),
            Self::Letters(count) => write!(f, "{count} for a person to judge"),
            Self::GroupGone => f.write_str("gone"),
            Self::Holds(holds) => write!(f, "holds a {holds}, which seckill has not written"),
            Self::NoHeartbeat(millis) => write!(
                f,
                "no heartbeat for {:.1} s; live nodes take over its entries",
                *millis as f64 / 1_000.0
            ),
            Self::LeftOut(lines) => {
                let lines = counted(u64::from(*lines), "line", "lines");
                write!(f, "{lines} left out in a minute; the log file has them all")
            }
            Self::InOrder => f.write_str("in order"),
            Self::Healed(healed) => healed.fmt(f),
            Self::Mended(mended) => mended.fmt(f),
        }
    }
}

/// On what an act is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A sale to be made.
    NewSale {
        /// Its title.
        title: String,
        /// Its pieces.
        stock: u64,
        /// Orders that one user may hold; `None` in lines of older versions.
        #[serde(default)]
        limit: Option<u8>,
        /// Opening of its window; `None` is at once.
        #[serde(default)]
        begin: Option<Millis>,
        /// End of its window; `None` is never.
        #[serde(default)]
        end: Option<Millis>,
    },
    /// An ordinary voucher to be made.
    NewVoucher(Box<VoucherDetails>),
    /// Pieces of a sale; below 0 they are taken out.
    Pieces(VoucherId, i64),
    /// Simulated buyers.
    Rush {
        /// What they buy.
        voucher: VoucherId,
        /// How many there are.
        users: u64,
        /// From what the rest follows.
        seed: u64,
    },
    /// Sales, and what is wrong with their books.
    Books(Vec<(VoucherId, Vec<Finding>)>),
    /// A plan of recovery.
    Plan {
        /// Its entries.
        entries: u64,
        /// The begin of its digest.
        digest: String,
        /// What it was made by.
        filter: String,
    },
    /// Groups to be moved back.
    Rewind(Vec<RewindPart>),
    /// Entries to be given.
    Claim(Vec<ClaimPart>, bool),
    /// A consumer, of one partition or of all.
    Consumer(String, Option<u16>),
    /// A lock, of that holder.
    Lock(String, String),
    /// Dead letters.
    Letters {
        /// So many by name; otherwise all that pass the filter.
        named: Option<u64>,
        /// What they have to say of themselves.
        filter: String,
        /// Also those that were replayed as often as they may.
        force: bool,
        /// Give back what they hold.
        compensate: bool,
    },
    /// A partition.
    Partition(u16),
}

/// The group of one partition that is moved back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewindPart {
    /// The partition.
    pub partition: u16,
    /// Where the group is; `None` where there is none.
    pub was: Option<EntryId>,
    /// The first entry that is delivered again.
    pub from: EntryId,
    /// How many are.
    pub again: u64,
}

/// Entries of one partition that are given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimPart {
    /// The partition.
    pub partition: u16,
    /// Who gives.
    pub from: String,
    /// Who gets.
    pub to: String,
    /// How many.
    pub count: u64,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewSale { title, stock, limit, begin, end } => {
                write!(f, "'{title}', stock {stock}")?;
                limit.map_or(Ok(()), |limit| write!(f, ", limit {limit}"))?;
                begin.map_or(Ok(()), |begin| write!(f, ", begins at {begin}"))?;
                end.map_or(Ok(()), |end| write!(f, ", ends at {end}"))
            }
            Self::NewVoucher(voucher) => {
                let VoucherDetails { title, shop_id, sub_title, rules, .. } = &**voucher;
                let VoucherDetails { pay_value, actual_value, status, .. } = &**voucher;
                write!(f, "'{title}', pays {pay_value} for {actual_value} cents, {status}")?;
                shop_id.map_or(Ok(()), |shop| write!(f, ", shop {shop}"))?;
                sub_title.as_ref().map_or(Ok(()), |text| write!(f, ", sub-title '{text}'"))?;
                rules.as_ref().map_or(Ok(()), |text| write!(f, ", rules '{text}'"))
            }
            Self::Pieces(voucher, by) => write!(f, "#{voucher} by {}", by.unsigned_abs()),
            Self::Rush { voucher, users, seed } => {
                write!(f, "#{voucher}, {}, seed {seed}", counted(*users, "buyer", "buyers"))
            }
            Self::Books(sales) => {
                let sale = |(sale, findings): &(VoucherId, Vec<Finding>)| {
                    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
                    format!("#{sale}: {}", told.join("; "))
                };
                f.write_str(&sales.iter().map(sale).collect::<Vec<_>>().join("; "))
            }
            Self::Plan { entries: count, digest, filter } => {
                write!(f, "{} of plan {digest}", entries(*count))?;
                if filter.is_empty() { Ok(()) } else { write!(f, ", '{filter}'") }
            }
            Self::Rewind(parts) => {
                let one = |RewindPart { partition, was, from, again }: &RewindPart| {
                    let was =
                        was.map_or("no group".to_owned(), |at| format!("delivered up to {at}"));
                    format!("partition {partition} ({was}) to {from}: {} again", entries(*again))
                };
                f.write_str(&parts.iter().map(one).collect::<Vec<_>>().join("; "))
            }
            Self::Claim(parts, force) => {
                let one = |ClaimPart { partition, from, to, count }: &ClaimPart| {
                    let entries = entries(*count);
                    format!("{entries} of partition {partition} from '{from}' to '{to}'")
                };
                f.write_str(&parts.iter().map(one).collect::<Vec<_>>().join("; "))?;
                f.write_str(if *force { "; by force" } else { "" })
            }
            Self::Consumer(name, None) => write!(f, "'{name}'"),
            Self::Consumer(name, Some(number)) => write!(f, "'{name}' of partition {number}"),
            Self::Lock(name, owner) => write!(f, "'{name}' from {owner}"),
            Self::Letters { named, filter, force, compensate } => {
                match named {
                    Some(count) => f.write_str(&counted(*count, "letter", "letters"))?,
                    None if filter.is_empty() => f.write_str("all letters")?,
                    None => write!(f, "letters that pass '{filter}'")?,
                }
                f.write_str(if *force { ", by force" } else { "" })?;
                f.write_str(if *compensate { ", with compensation" } else { "" })
            }
            Self::Partition(number) => write!(f, "partition {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        for (said, one) in [
            (Told::DeadHolds(1).to_string(), "dead, holds 1 entry"),
            (Told::SilentHolds(2).to_string(), "silent, holds 2 entries"),
            (
                Told::LeftOut(1).to_string(),
                "1 line left out in a minute; the log file has them all",
            ),
            (
                Subject::Rush { voucher: VoucherId(7), users: 1, seed: 3 }.to_string(),
                "#7, 1 buyer, seed 3",
            ),
            (
                JobSaid::Closed { orders: 1, given_back: 1 }.to_string(),
                "1 closed, 1 piece given back",
            ),
        ] {
            assert_eq!(said, one);
        }
    }
}
