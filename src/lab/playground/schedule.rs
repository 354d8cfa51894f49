//! Jobs with different schedules side by side, run by the scheduler of the engine, and the next times of cron
//! expressions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use seckill_engine::{
    deployment::{Deployment, settings::Settings, time_zone::Zone},
    jobs::{Done, Job, Run, Runner, Schedule, Work, schedule},
    locks::{Locks, Timing},
};
use seckill_model::{Label, Millis, text};
use seckill_redis::{Layout, Redis};
use serde::Serialize;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Event, Lane, Log, Recording, follow, now_us, on_servers};
use crate::{LabError, Result, shop::Shop};

/// The lanes; each is a job.
const LANES: [&str; 4] = ["A", "B", "C", "D"];
/// A run takes this share of the period.
const SHORT: f64 = 0.3;
/// A run of the last job takes this share of its period.
const LONG: f64 = 1.5;
/// Longer than any run.
const AT_MOST: Duration = Duration::from_hours(1);
const NODE: &str = "lab";

/// Cron expressions with `? L W #`, and what they mean.
const EXAMPLES: [(&str, Label); 6] = [
    ("0/2 * * * * ?", Label("lab-cron-two-seconds")),
    ("0 0 9 ? * 6#3", Label("lab-cron-third-friday")),
    ("0 15 10 ? * 6L", Label("lab-cron-last-friday")),
    ("0 0 18 LW * ?", Label("lab-cron-last-weekday")),
    ("0 0 8 15W * ?", Label("lab-cron-nearest-weekday")),
    ("0 30 2 L * ?", Label("lab-cron-last-day")),
];

/// The next times of a schedule.
#[derive(Clone, Debug, Serialize)]
pub struct Upcoming {
    /// The schedule.
    pub schedule: Schedule,
    /// What it means, in the current language; only known for the examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<&'static str>,
    /// Its next times.
    pub next: Vec<Millis>,
}

impl Upcoming {
    /// The next times of a schedule, at most `count`.
    pub fn of(schedule: Schedule, meaning: Option<Label>, count: usize) -> Self {
        let after = |from: &Millis| schedule.next(*from, None, &Zone::of_host());
        let next = std::iter::successors(after(&Millis::now()), after).take(count).collect();
        Self { schedule, meaning: meaning.map(Label::read), next }
    }

    /// The next times of the examples.
    ///
    /// # Errors
    /// An example is never due.
    pub fn examples(count: usize) -> Result<Vec<Self>> {
        let example = |(text, meaning): (&str, Label)| {
            let schedule = text.parse().map_err(LabError::Invalid)?;
            Ok(Self::of(schedule, Some(meaning), count))
        };
        EXAMPLES.into_iter().map(example).collect()
    }
}

/// What runs, and for how long.
#[derive(Clone, Debug)]
pub struct SchedulePlay {
    /// The period of all jobs but that with the cron expression.
    pub period: Duration,
    /// The schedule of that job.
    pub cron: Schedule,
    /// When the scheduler is stopped.
    pub time: Duration,
}

impl SchedulePlay {
    /// What a job is about, its schedule, and how long a run takes.
    fn jobs(&self) -> [(Label, Schedule, Duration); 4] {
        let (period, short) = (self.period, self.period.mul_f64(SHORT));
        [
            (Label("lab-schedule-rate"), Schedule::Every(period), short),
            (Label("lab-schedule-delay"), Schedule::After(period), short),
            (Label("lab-schedule-cron"), self.cron.clone(), short),
            (Label("lab-schedule-slow"), Schedule::Every(period), self.period.mul_f64(LONG)),
        ]
    }

    /// The lanes, with the job of each.
    pub fn lanes(&self) -> Vec<Lane> {
        let title = |(about, schedule, takes): (Label, Schedule, Duration)| {
            let millis = |it: Duration| it.as_millis() as u64;
            let schedule = match schedule {
                Schedule::Every(period) => text!("lab-schedule-every", period = millis(period)),
                Schedule::After(delay) => text!("lab-schedule-after", delay = millis(delay)),
                cron @ Schedule::Cron(_) => cron.to_string(),
            };
            text!("lab-schedule-job", about, schedule, takes = millis(takes))
        };
        let titles = self.jobs().map(title);
        LANES.into_iter().zip(titles).map(|(name, title)| Lane { name, title }).collect()
    }

    /// Runs the jobs on servers of its own, from the next full second on, and shows each begin and end of a run.
    ///
    /// # Errors
    /// A server failed, or `stop` was cancelled.
    pub async fn play(
        &self,
        show: impl FnMut(&Event),
        stop: &CancellationToken,
    ) -> Result<Recording> {
        on_servers(stop, async |shop| self.play_on(shop, show, stop).await).await
    }

    async fn play_on(
        &self,
        shop: &Shop,
        show: impl FnMut(&Event),
        stop: &CancellationToken,
    ) -> Result<Recording> {
        let store =
            seckill_store::open(shop.database_url(), &seckill_store::Settings::default()).await?;
        let (redis, keys) = (Redis::from_url(&shop.redis_url())?, Layout::default());
        let (locks, watchdog) = Locks::new(&redis, keys.clone(), NODE, Timing::default());
        let deployment =
            Deployment { redis, store: Arc::clone(&store), keys, settings: Settings::default() };
        let runner = Runner { deployment, node: NODE.to_owned(), locks };

        let second = (now_us() / 1_000_000 + 1) * 1_000_000;
        let until_second = Duration::from_micros((second - now_us()).max(0) as u64);
        let (log, events) = Log::starting_at(second);
        let jobs: Vec<Job> = (0..)
            .zip(self.jobs())
            .map(|(lane, (_, schedule, takes))| job(lane, schedule, takes, &log))
            .collect();
        drop(log);
        let end = CancellationToken::new();
        let scheduling = async {
            end.run_until_cancelled(sleep(until_second)).await;
            let pool = jobs.len();
            tokio::join!(schedule(jobs, runner, pool, end.clone()), watchdog.run(end.clone()));
        };
        let ending = async {
            stop.run_until_cancelled(sleep(until_second + self.time)).await;
            end.cancel();
        };
        let (events, (), ()) = tokio::join!(follow(second, events, show), scheduling, ending);
        store.close().await;
        Ok(Recording { lanes: self.lanes(), events })
    }
}

/// A job that reports the begin and the end of each run.
fn job(lane: usize, schedule: Schedule, takes: Duration, log: &Log) -> Job {
    let (log, last) = (log.clone(), Arc::new(AtomicI64::new(i64::MAX)));
    let of = schedule.clone();
    let work: Work = Arc::new(move |run: Run| {
        let last = Millis(last.swap(run.due.0, Ordering::Relaxed));
        let skipped = skipped(&of, last, run.due);
        let log = log.clone();
        Box::pin(async move {
            let due = (run.due.0 - log.zero_us / 1_000).to_string();
            let text = match skipped {
                0 => text!("lab-schedule-due", due),
                skipped => text!("lab-schedule-due-skipped", due, skipped),
            };
            log.say(lane, text, Some(true));
            let begun = now_us();
            sleep(takes).await;
            let took = ((now_us() - begun) / 1_000).to_string();
            log.say(lane, text!("lab-schedule-took", took), Some(false));
            Ok(Done::default())
        })
    });
    let name = format!("lab-{}", LANES[lane]);
    Job { name, schedule, at_most: AT_MOST, jitter: Duration::ZERO, work }
}

/// How many due times between two runs had none.
fn skipped(schedule: &Schedule, last: Millis, due: Millis) -> usize {
    if matches!(schedule, Schedule::After(_)) {
        return 0;
    }
    let after = |from: &Millis| schedule.next(*from, None, &Zone::of_host());
    std::iter::successors(after(&last), after).take_while(|it| *it < due).count()
}
