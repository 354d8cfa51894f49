//! Buyers: they send requests, retry those without an answer, and record every reply.

use std::{
    collections::BTreeSet,
    io::Write as _,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};
use seckill_engine::admission::{Admission, AdmissionError};
use seckill_model::{Millis, Outcome, UserId, VoucherId};
use tokio::task::JoinHandle;

use super::{check::Receipt, plan::Ask};

/// All replies in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Log {
    receipts: Arc<Mutex<Vec<Receipt>>>,
    /// Requests that got no answer in time.
    unanswered: Arc<Mutex<Vec<String>>>,
    /// Vouchers for which a request was refused as sold out.
    sold_out: Arc<Mutex<BTreeSet<VoucherId>>>,
    /// Prints each receipt, for a reader that outlives this process.
    is_printed: bool,
}

impl Log {
    pub fn printed() -> Self {
        Self { is_printed: true, ..Self::default() }
    }

    pub fn push(&self, receipt: Receipt) {
        if self.is_printed {
            println!("{}", line(&receipt));
            let _ = std::io::stdout().flush();
        }
        self.receipts.lock().unwrap().push(receipt);
    }

    pub fn all(&self) -> Vec<Receipt> {
        self.receipts.lock().unwrap().clone()
    }

    pub fn unanswered(&self) -> Vec<String> {
        self.unanswered.lock().unwrap().clone()
    }

    pub fn sold_out(&self) -> BTreeSet<VoucherId> {
        self.sold_out.lock().unwrap().clone()
    }

    pub fn admitted(&self) -> usize {
        self.receipts.lock().unwrap().iter().filter(|it| it.admitted).count()
    }

    /// Adds the receipts that another process printed.
    pub fn read(&self, output: &str) {
        self.receipts.lock().unwrap().extend(parse(output));
    }
}

fn line(receipt: &Receipt) -> String {
    let Receipt { lane: (issuer, lane), voucher, user, order, admitted, at } = receipt;
    format!("receipt {issuer} {lane} {voucher} {user} {order} {admitted} {at} .")
}

/// Receipts printed by a process; a truncated last line does not count.
pub fn parse(output: &str) -> Vec<Receipt> {
    let one = |line: &str| {
        let mut words = line.strip_prefix("receipt ")?.strip_suffix(" .")?.split(' ');
        let mut next = || words.next();
        Some(Receipt {
            lane: (next()?.parse().ok()?, next()?.parse().ok()?),
            voucher: VoucherId(next()?.parse().ok()?),
            user: next()?.parse().ok()?,
            order: next()?.parse().ok()?,
            admitted: next()? == "true",
            at: next()?.parse().ok()?,
        })
    };
    output.lines().filter_map(one).collect()
}

/// Running buyers.
pub struct Buyers(Vec<JoinHandle<()>>);

impl Buyers {
    /// Starts the lanes of buyers, each at one of the entrances, as issuer `issuer`.
    pub fn ask(
        entrances: &[Admission],
        issuer: usize,
        vouchers: &[VoucherId],
        lanes: Vec<Vec<Ask>>,
        log: &Log,
    ) -> Self {
        let spawn = |(at, asks): (usize, Vec<Ask>)| {
            let (admission, log) = (entrances[at % entrances.len()].clone(), log.clone());
            let ask = |(sale, user): Ask| (vouchers[sale], user);
            let asks: Vec<_> = asks.into_iter().map(ask).collect();
            tokio::spawn(lane((issuer, at), admission, asks, log))
        };
        Self(lanes.into_iter().enumerate().map(spawn).collect())
    }

    pub fn are_done(&self) -> bool {
        self.0.iter().all(JoinHandle::is_finished)
    }

    pub async fn done(self) {
        for lane in self.0 {
            lane.await.unwrap();
        }
    }
}

/// A request: the voucher and the user.
type Asked = (VoucherId, u64);

async fn lane(lane: (usize, usize), admission: Admission, asks: Vec<Asked>, log: Log) {
    let mut random = ChaCha8Rng::seed_from_u64(lane.1 as u64);
    for (voucher, user) in asks {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let outcome = admission.request(voucher, UserId(user)).answer().await.outcome;
            if Instant::now() > until {
                let what = format!("buyer {user} of #{voucher} got no answer in time: {outcome:?}");
                println!("{what}");
                log.unanswered.lock().unwrap().push(what);
                return;
            }
            match outcome {
                Ok(Outcome::Admitted { order }) => {
                    let order = order.as_i64();
                    let at = Millis::now().0;
                    log.push(Receipt { lane, voucher, user, order, admitted: true, at });
                    break;
                }
                Ok(Outcome::Duplicate { order }) => {
                    let order = order.as_i64();
                    let at = Millis::now().0;
                    log.push(Receipt { lane, voucher, user, order, admitted: false, at });
                    break;
                }
                // Retried.
                Ok(Outcome::Busy | Outcome::NotReady | Outcome::NotLoaded | Outcome::Paused)
                | Err(
                    AdmissionError::NoAnswer(_)
                    | AdmissionError::Rejected(_)
                    | AdmissionError::TooLate,
                ) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(Outcome::SoldOut) => {
                    log.sold_out.lock().unwrap().insert(voucher);
                    break;
                }
                Ok(Outcome::Ended | Outcome::NotStarted { .. }) => break,
                Err(AdmissionError::Stopping) => return,
            }
        }
        tokio::time::sleep(Duration::from_micros(random.random_range(0..4_000))).await;
    }
}
