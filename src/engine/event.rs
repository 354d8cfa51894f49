//! Events, and the objects that events and commands are about, as the audit log keeps them.

use std::fmt;

use seckill_model::{
    EntryId, ForeignKey, Millis, VoucherDetails, VoucherId, VoucherStatus,
    ledger::{Finding, SaleFinding},
    message::{Label, text},
};
use serde::{Deserialize, Serialize};

use super::{
    lists::{CLAUSES, PARTS},
    partition_fault::RepairedFault,
};
use crate::telemetry::{data_loss::Reconciled, read_error::ReadError};

/// An event that no command caused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A message of a server or of the system, quoted.
    Quoted(String),
    /// Why a server could not be read.
    ReadError(ReadError),
    /// Its duration, in milliseconds.
    Lasted(u64),
    /// The audit failed.
    AuditFailed(SaleFinding),
    /// Number of entries that a dead consumer holds.
    DeadHolds(u64),
    /// Number of entries that a consumer of an unknown node holds.
    UnknownHolds(u64),
    /// Number of entries that an idle consumer of a live node holds.
    SilentHolds(u64),
    /// The lag of the consumer group, which hardly decreases.
    Lag(u64),
    /// The last run of a job failed.
    RunFailed,
    /// Number of dead letters to review.
    DeadLetters(u64),
    /// The consumer group is missing.
    NoGroup,
    /// A key holds this type, written by another program.
    ForeignKey(String),
    /// Milliseconds since the last heartbeat of a node.
    NoHeartbeat(u64),
    /// Number of lines that only the log file has.
    Omitted(u32),
    /// A node shut down normally.
    Stopped,
    /// Number of orders written after the database was unreachable.
    OrdersWritten(u64),
    /// Redis was reconciled.
    DataLoss(Reconciled),
    /// A fault of a partition was repaired.
    Repaired(RepairedFault),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |millis: &u64| format!("{:.1}", *millis as f64 / 1e3);
        f.write_str(&match self {
            Self::Quoted(text) => return f.write_str(text),
            Self::ReadError(why) => return why.fmt(f),
            Self::Lasted(millis) => text!("event-lasted", seconds = seconds(millis)),
            Self::AuditFailed(finding) => text!("event-audit-failed", finding),
            Self::DeadHolds(pending) => text!("event-dead-holds", pending),
            Self::UnknownHolds(pending) => text!("event-unknown-holds", pending),
            Self::SilentHolds(pending) => text!("event-silent-holds", pending),
            Self::Lag(lag) => text!("event-lag", lag),
            Self::RunFailed => text!("event-run-failed"),
            Self::DeadLetters(count) => text!("event-dead-letters", count),
            Self::NoGroup => text!("event-no-group"),
            Self::ForeignKey(holds) => {
                text!("event-foreign-key", holds = ForeignKey::content(holds))
            }
            Self::NoHeartbeat(millis) => text!("event-no-heartbeat", seconds = seconds(millis)),
            Self::Omitted(lines) => text!("event-omitted", lines),
            Self::Stopped => text!("event-stopped"),
            Self::OrdersWritten(orders) => text!("event-orders", orders),
            Self::DataLoss(done) => return done.fmt(f),
            Self::Repaired(fault) => return fault.fmt(f),
        })
    }
}

/// Object of a command or an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A sale to create.
    NewSale {
        /// Its title.
        title: String,
        /// Its stock.
        stock: u64,
        /// Orders that one user may hold; `None` in lines of older versions.
        #[serde(default)]
        limit: Option<u8>,
        /// Opening of its window; `None` is immediately.
        #[serde(default)]
        begin: Option<Millis>,
        /// End of its window; `None` is never.
        #[serde(default)]
        end: Option<Millis>,
    },
    /// An ordinary voucher to create.
    NewVoucher(Box<VoucherDetails>),
    /// Pieces added to a sale; negative if removed.
    Pieces(VoucherId, i64),
    /// Simulated buyers.
    LoadTest {
        /// The voucher they buy.
        voucher: VoucherId,
        /// Number of buyers.
        users: u64,
        /// Seed of the random choices.
        seed: u64,
    },
    /// Sales, and what the audit found.
    Findings(Vec<(VoucherId, Vec<Finding>)>),
    /// A recovery plan.
    Plan {
        /// Number of entries.
        entries: u64,
        /// Start of its digest.
        digest: String,
        /// The filter it was made with.
        filter: String,
    },
    /// Consumer groups to move back.
    Rewind(Vec<RewindPart>),
    /// Entries to claim, and whether by force.
    Claim(Vec<ClaimPart>, bool),
    /// A consumer, of one partition or of all.
    Consumer(String, Option<u16>),
    /// A lock and its holder.
    Lock(String, String),
    /// Dead letters.
    Letters {
        /// Number of letters chosen by ID; `None` for all that match the filter.
        named: Option<u64>,
        /// The filter.
        filter: String,
        /// Including those at the limit of replays.
        force: bool,
        /// Orders are cancelled, and their stock is returned.
        compensate: bool,
    },
    /// A partition.
    Partition(u16),
}

/// The consumer group of one partition to move back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewindPart {
    /// The partition.
    pub partition: u16,
    /// Its last delivered entry; `None` without a group.
    pub was: Option<EntryId>,
    /// The first entry to redeliver.
    pub from: EntryId,
    /// Number of entries to redeliver.
    pub again: u64,
}

/// Entries of one partition to claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimPart {
    /// The partition.
    pub partition: u16,
    /// The consumer that holds them.
    pub from: String,
    /// The consumer that gets them.
    pub to: String,
    /// Number of entries.
    pub count: u64,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::NewSale { title, stock, limit, begin, end } => {
                let mut text = text!("subject-new-sale", title, stock);
                text.extend(limit.map(|limit| text!("subject-limit", limit)));
                text.extend(begin.map(|begin| text!("subject-begins", begin)));
                text.extend(end.map(|end| text!("subject-ends", end)));
                text
            }
            Self::NewVoucher(voucher) => {
                let VoucherDetails { title, shop_id, sub_title, rules, .. } = &**voucher;
                let status = match voucher.status {
                    VoucherStatus::On => Label("subject-voucher-on"),
                    VoucherStatus::Off => Label("subject-voucher-off"),
                    VoucherStatus::Expired => Label("subject-voucher-expired"),
                };
                let (pay, actual) = (voucher.pay_value, voucher.actual_value);
                let mut text = text!("subject-new-voucher", title, pay, actual, status);
                text.extend(shop_id.map(|shop| text!("subject-shop", shop = shop.to_string())));
                text.extend(sub_title.as_ref().map(|it| text!("subject-sub-title", text = it)));
                text.extend(rules.as_ref().map(|it| text!("subject-rules", text = it)));
                text
            }
            Self::Pieces(sale, by) => text!("subject-pieces", sale, count = by.unsigned_abs()),
            Self::LoadTest { voucher, users, seed } => {
                text!("subject-rush", sale = voucher, users, seed = seed.to_string())
            }
            Self::Findings(sales) => {
                let one = |(sale, findings): &(VoucherId, Vec<Finding>)| {
                    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
                    text!("subject-findings", sale, findings = findings.join(&CLAUSES))
                };
                sales.iter().map(one).collect::<Vec<_>>().join(&PARTS)
            }
            Self::Plan { entries, digest, filter } if filter.is_empty() => {
                text!("subject-plan", entries, digest)
            }
            Self::Plan { entries, digest, filter } => {
                text!("subject-plan-filtered", entries, digest, filter)
            }
            Self::Rewind(parts) => {
                let one = |RewindPart { partition, was, from, again }: &RewindPart| {
                    let partition = partition.to_string();
                    match was {
                        Some(was) => text!("subject-rewind", partition, was, from, again),
                        None => text!(
                            "subject-partition-no-group-to-redelivers",
                            partition,
                            from,
                            again
                        ),
                    }
                };
                parts.iter().map(one).collect::<Vec<_>>().join(&PARTS)
            }
            Self::Claim(parts, force) => {
                let one = |ClaimPart { partition, from, to, count }: &ClaimPart| {
                    text!("subject-claim", count, partition = partition.to_string(), from, to)
                };
                let mut text = parts.iter().map(one).collect::<Vec<_>>().join(&PARTS);
                text.extend(force.then(|| text!("subject-claim-forced")));
                text
            }
            Self::Consumer(name, None) => text!("subject-consumer", name),
            Self::Consumer(name, Some(number)) => {
                text!("subject-consumer-of", name, partition = number.to_string())
            }
            Self::Lock(name, owner) => text!("subject-lock", name, owner),
            Self::Letters { named, filter, force, compensate } => {
                let mut text = match named {
                    Some(count) => text!("subject-letters", count),
                    None if filter.is_empty() => text!("subject-letters-all"),
                    None => text!("subject-letters-matching", filter),
                };
                text.extend(force.then(|| text!("subject-forced")));
                text.extend(compensate.then(|| text!("subject-compensated")));
                text
            }
            Self::Partition(number) => text!("subject-partition", number = number.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        for (text, one) in [
            (Event::DeadHolds(1).to_string(), "dead, holds 1 entry"),
            (Event::SilentHolds(2).to_string(), "idle, holds 2 entries"),
            (
                Event::Omitted(1).to_string(),
                "1 line omitted within a minute; the log file has all of them",
            ),
            (
                Subject::LoadTest { voucher: VoucherId(7), users: 1, seed: 3 }.to_string(),
                "#7, 1 buyer, seed 3",
            ),
        ] {
            assert_eq!(text, one);
        }
    }
}
