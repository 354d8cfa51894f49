//! The buyers: they ask, ask again where they got no answer, and remember every word that they were told.

use std::{
    io::Write as _,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use seckill_engine::admission::{Admission, AdmissionError};
use seckill_model::{Outcome, UserId, VoucherId};
use tokio::task::JoinHandle;

use super::plan::Ask;

/// One answer that named an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whose answers rise: one lane asks one after the other.
    pub lane: (usize, usize),
    pub voucher: VoucherId,
    pub user: u64,
    pub order: i64,
    /// New, and not what he held already.
    pub admitted: bool,
}

/// All that was told, in the order in which it was heard.
#[derive(Clone, Debug, Default)]
pub struct Log {
    told: Arc<Mutex<Vec<Told>>>,
    /// Buyers who asked in vain.
    unheard: Arc<Mutex<Vec<String>>>,
    /// For whoever reads along after this process has died.
    aloud: bool,
}

impl Log {
    pub fn aloud() -> Self {
        Self { aloud: true, ..Self::default() }
    }

    pub fn note(&self, told: Told) {
        if self.aloud {
            println!("{}", line(&told));
            let _ = std::io::stdout().flush();
        }
        self.told.lock().unwrap().push(told);
    }

    pub fn all(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    pub fn unheard(&self) -> Vec<String> {
        self.unheard.lock().unwrap().clone()
    }

    pub fn admitted(&self) -> usize {
        self.told.lock().unwrap().iter().filter(|told| told.admitted).count()
    }

    /// What another process has said of its buyers.
    pub fn read(&self, said: &str) {
        self.told.lock().unwrap().extend(heard(said));
    }
}

fn line(told: &Told) -> String {
    let Told { lane: (issuer, lane), voucher, user, order, admitted } = told;
    format!("told {issuer} {lane} {voucher} {user} {order} {admitted} .")
}

/// What a process has told its buyers; a last line that was cut short was heard by nobody.
pub fn heard(said: &str) -> Vec<Told> {
    let one = |line: &str| {
        let mut words = line.strip_prefix("told ")?.strip_suffix(" .")?.split(' ');
        let mut next = || words.next();
        Some(Told {
            lane: (next()?.parse().ok()?, next()?.parse().ok()?),
            voucher: VoucherId(next()?.parse().ok()?),
            user: next()?.parse().ok()?,
            order: next()?.parse().ok()?,
            admitted: next()? == "true",
        })
    };
    said.lines().filter_map(one).collect()
}

/// Buyers on their way.
pub struct Buyers(Vec<JoinHandle<()>>);

impl Buyers {
    /// Lets buyers ask at the entrances, each lane at one of them, as issuer `issuer`.
    pub fn ask(
        entrances: &[Admission],
        issuer: usize,
        vouchers: &[VoucherId],
        lanes: Vec<Vec<Ask>>,
        log: &Log,
    ) -> Self {
        let spawn = |(at, asks): (usize, Vec<Ask>)| {
            let (admission, log) = (entrances[at % entrances.len()].clone(), log.clone());
            let asks: Vec<_> =
                asks.into_iter().map(|(sale, user)| (vouchers[sale], user)).collect();
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

async fn lane(lane: (usize, usize), admission: Admission, asks: Vec<(VoucherId, u64)>, log: Log) {
    let mut random = ChaCha8Rng::seed_from_u64(lane.1 as u64);
    for (voucher, user) in asks {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let outcome = admission.request(voucher, UserId(user)).answer().await.outcome;
            if Instant::now() > until {
                let what = format!("buyer {user} of #{voucher} asked in vain: {outcome:?}");
                println!("{what}");
                log.unheard.lock().unwrap().push(what);
                return;
            }
            match outcome {
                Ok(Outcome::Admitted { order }) => {
                    let order = order.as_i64();
                    log.note(Told { lane, voucher, user, order, admitted: true });
                    break;
                }
                Ok(Outcome::Duplicate { order }) => {
                    let order = order.as_i64();
                    log.note(Told { lane, voucher, user, order, admitted: false });
                    break;
                }
                // His turn comes.
                Ok(Outcome::Busy | Outcome::NotReady | Outcome::NotLoaded | Outcome::Paused)
                | Err(AdmissionError::NoAnswer(_) | AdmissionError::Refused(_)) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(Outcome::SoldOut | Outcome::Ended | Outcome::NotStarted { .. }) => break,
                Err(AdmissionError::Stopping) => return,
            }
        }
        tokio::time::sleep(Duration::from_micros(random.random_range(0..4_000))).await;
    }
}
