//! A run of a design that writes its orders after the reply: instances, consumer, incidents, and the wait for the orders.
//!
//! Everything that happens is a report of a process, and each incident follows from one: the moments come from the seed,
//! and a process that dies is killed by SIGKILL.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use rand::RngExt as _;
use redis::cmd;
use seckill_redis::Redis;
use seckill_store::plain::PlainConnection;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{interval, timeout},
};

use crate::{
    Design, LabError, Program, Result,
    consumer::Consumer,
    fleet::{Lines, Member, WORK_TIMEOUT, ended, late},
    lane::CONSUMER,
    parent::{Assignment, GO, Reply, Report, Role, Served},
    shop::Shop,
    trace::{self, Action, Step},
    work::{Incident, VOUCHER, Work},
};

/// How long an order may be missing in SQL while all processes run and no other order is written, besides the think
/// time of some orders. Then it is lost.
/// Longer than a blocking read, which shows then that it got nothing.
const LOST_AFTER: Duration = Duration::from_millis(2_500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Reports that wait to be handled.
const REPORTS: usize = 256;

/// What the processes of a run did.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) served: Vec<Served>,
    /// Steps of consumers.
    pub(crate) consumed: Vec<Step>,
    /// Scripts that the nodes of the engine ran while requests were served: their steps are not traced.
    pub(crate) scripts: Option<u64>,
}

/// The processes of one run.
pub(crate) struct Crew<'a> {
    program: &'a Program,
    shop: &'a Shop,
    design: &'a Design,
    consumer: Consumer,
    work: Work,
    seed: u64,
    /// The instances, then the consumer, if it is a process.
    members: Vec<Running>,
    readers: JoinSet<()>,
    sender: mpsc::Sender<Incoming>,
    reports: mpsc::Receiver<Incoming>,
}

struct Running {
    member: Member,
    /// Counts its starts: reports of the process that was killed may still arrive.
    life: u32,
    is_starting: bool,
}

/// A report of a process, or none at its end.
struct Incoming {
    place: usize,
    life: u32,
    report: Result<Option<Report>>,
}

/// What has happened so far.
#[derive(Default)]
struct Progress {
    ran: Ran,
    /// Requests are sent.
    has_begun: bool,
    /// The first pieces were sold.
    is_selling: bool,
    /// The consumer listens, or has done so before it died.
    has_listened: bool,
    /// The consumer is connected, and not to listen yet.
    is_held: bool,
    /// Scripts that Redis had run before the first request, for the engine.
    scripts: Option<u64>,
    /// The consumer of the engine was killed.
    is_killed: bool,
    /// Instances that have served all of their requests.
    done: usize,
}

impl<'a> Crew<'a> {
    pub(crate) fn new(
        program: &'a Program,
        shop: &'a Shop,
        design: &'a Design,
        consumer: Consumer,
        (work, seed): (Work, u64),
    ) -> Self {
        let (sender, reports) = mpsc::channel(REPORTS);
        let (members, readers) = (Vec::new(), JoinSet::new());
        Self { program, shop, design, consumer, work, seed, members, readers, sender, reports }
    }

    /// Serves all requests, makes the incidents happen, and waits until each order is in SQL or lost.
    pub(crate) async fn run(&mut self) -> Result<Ran> {
        let running = Box::pin(self.run_unlimited());
        timeout(WORK_TIMEOUT, running).await.map_err(|_| late(0, WORK_TIMEOUT))?
    }

    /// Ends all processes, and waits for their end.
    pub(crate) async fn end(&mut self) {
        self.readers.shutdown().await;
        for running in &mut self.members {
            running.member.kill().await;
        }
    }

    async fn run_unlimited(&mut self) -> Result<Ran> {
        let mut rng = Work::rng(self.seed, CONSUMER);
        // Each instance sells about its share. The consumer is slower than the buyers: it dies when most were served.
        let sold = self.work.stock.min(self.work.buyers);
        let report_at = rng.random_range(1..=(sold / self.work.instances / 4).max(1));
        let stall = rng.random_range((sold / 4).max(1)..=(sold / 2).max(1));
        for _ in 0..self.work.instances {
            self.add(Role::Serve(Some(report_at))).await?;
        }
        if !matches!(self.consumer, Consumer::Task(_)) {
            let stall = Some(stall).filter(|_| self.happens(Incident::ConsumerDies));
            self.add(Role::Consume(stall)).await?;
        }
        let mut progress = Progress::default();
        while progress.done < self.instances() || self.is_starting() {
            let Some(incoming) = self.reports.recv().await else { break };
            self.handle(incoming, &mut progress).await?;
            if progress.done == self.instances() {
                if let Some(before) = progress.scripts.take() {
                    progress.ran.scripts = Some(self.scripts().await?.saturating_sub(before));
                }
                // If hardly anything is sold, the moments do not come by themselves.
                self.sell(&mut progress).await?;
            }
        }
        self.settle(&mut progress).await?;
        progress.ran.consumed.sort_by_key(|it| it.ended);
        Ok(progress.ran)
    }

    /// Waits until each order in a reply is in SQL, or none was written for too long.
    async fn settle(&mut self, progress: &mut Progress) -> Result<()> {
        let mut sql = self.shop.sql().await?;
        let promised: BTreeSet<i64> = progress
            .ran
            .served
            .iter()
            .filter_map(|it| if let Reply::Bought(order) = it.reply { Some(order) } else { None })
            .collect();
        let (mut written, mut since) = (0, Instant::now());
        let limit = LOST_AFTER + 4 * Duration::from_millis(self.work.think_ms.into());
        let mut polls = interval(POLL_INTERVAL);
        loop {
            tokio::select! {
                Some(incoming) = self.reports.recv() => self.handle(incoming, progress).await?,
                _ = polls.tick() => {
                    let orders = orders(&mut sql).await?;
                    if promised.is_subset(&orders) {
                        return Ok(());
                    }
                    if orders.len() != written || self.is_starting() {
                        (written, since) = (orders.len(), Instant::now());
                    }
                    if since.elapsed() > limit {
                        return Ok(());
                    }
                }
            }
        }
    }

    async fn handle(&mut self, incoming: Incoming, progress: &mut Progress) -> Result<()> {
        let Incoming { place, life, report } = incoming;
        let is_consumer = place >= self.instances();
        let report = match report {
            Ok(Some(Report::Step(step))) => {
                progress.ran.consumed.push(step);
                return Ok(());
            }
            report => report,
        };
        let Some(running) = self.members.get_mut(place).filter(|it| it.life == life) else {
            // The process was killed, perhaps in the middle of a line.
            return Ok(());
        };
        match report? {
            Some(Report::Ready) if is_consumer => {
                let waits = self.happens(Incident::NoSubscriber) && !progress.is_selling;
                if waits {
                    progress.is_held = true;
                } else {
                    self.go(place).await?;
                }
            }
            Some(Report::Ready) => {
                running.is_starting = false;
                if progress.has_begun {
                    running.member.send(GO).await?;
                }
            }
            Some(Report::Listening) => {
                running.is_starting = false;
                progress.has_listened = true;
                self.kill_engine(progress).await?;
            }
            Some(Report::Selling) => self.sell(progress).await?,
            Some(Report::Stalled) => self.restart(place, Role::Consume(None), progress).await?,
            Some(Report::Done(served)) => {
                progress.ran.served.extend(served);
                progress.done += 1;
                let is_task = matches!(self.consumer, Consumer::Task(_));
                if self.happens(Incident::Restart)
                    || (is_task && self.happens(Incident::ConsumerDies))
                {
                    self.restart(place, Role::Resume, progress).await?;
                }
            }
            Some(report) => return Err(running.member.failed(report)),
            None => return Err(ended(running.member.number())),
        }
        self.begin(progress).await
    }

    /// Starts the instances once all of them and the consumer are connected.
    async fn begin(&mut self, progress: &mut Progress) -> Result<()> {
        let waits =
            self.members.iter().enumerate().any(|(place, it)| {
                it.is_starting && !(place >= self.instances() && progress.is_held)
            });
        if progress.has_begun || waits {
            return Ok(());
        }
        progress.has_begun = true;
        if matches!(self.consumer, Consumer::Engine) {
            progress.scripts = Some(self.scripts().await?);
        }
        for place in 0..self.instances() {
            self.go(place).await?;
        }
        Ok(())
    }

    /// The first pieces are sold.
    async fn sell(&mut self, progress: &mut Progress) -> Result<()> {
        if std::mem::replace(&mut progress.is_selling, true) {
            return Ok(());
        }
        if std::mem::take(&mut progress.is_held) {
            self.go(self.instances()).await?;
        }
        self.kill_engine(progress).await
    }

    /// The consumer listens and buyers buy: kills the consumer of the engine, which has no pauses of the lab.
    async fn kill_engine(&mut self, progress: &mut Progress) -> Result<()> {
        let is_now = matches!(self.consumer, Consumer::Engine)
            && self.happens(Incident::ConsumerDies)
            && progress.is_selling
            && progress.has_listened;
        if is_now && !std::mem::replace(&mut progress.is_killed, true) {
            self.restart(self.instances(), Role::Consume(None), progress).await?;
        }
        Ok(())
    }

    /// How many scripts Redis has run.
    async fn scripts(&self) -> Result<u64> {
        let mut redis = Redis::from_url(&self.shop.redis_url())?.connection();
        let stats: String = redis.query(cmd("INFO").arg("commandstats")).await?;
        let calls = |line: &str| {
            let (name, figures) = line.split_once(":calls=")?;
            let calls = figures.split(',').next()?.parse::<u64>().ok()?;
            matches!(name, "cmdstat_evalsha" | "cmdstat_eval").then_some(calls)
        };
        Ok(stats.lines().filter_map(calls).sum())
    }

    fn happens(&self, incident: Incident) -> bool {
        self.work.incidents.contains(&incident)
    }

    fn instances(&self) -> usize {
        self.work.instances as usize
    }

    fn is_starting(&self) -> bool {
        self.members.iter().any(|it| it.is_starting)
    }

    async fn go(&mut self, place: usize) -> Result<()> {
        match self.members.get_mut(place) {
            Some(running) => running.member.send(GO).await,
            None => Ok(()),
        }
    }

    /// Kills a process, and starts it again.
    async fn restart(&mut self, place: usize, role: Role, progress: &mut Progress) -> Result<()> {
        let Some(running) = self.members.get_mut(place) else { return Ok(()) };
        let begun = trace::Instant::now();
        running.member.kill().await;
        let (lane, user, instance) = (CONSUMER, 0, running.member.number());
        let (action, ended) = (Action::Killed, trace::Instant::now());
        let (what, values, saw) = ("SIGKILL".into(), Vec::new(), trace::Saw::default());
        let killed = Step { lane, user, instance, action, what, values, saw, begun, ended };
        progress.ran.consumed.push(killed);
        let life = running.life + 1;
        let next = self.start(place, life, role).await?;
        if let Some(running) = self.members.get_mut(place) {
            *running = next;
        }
        Ok(())
    }

    async fn add(&mut self, role: Role) -> Result<()> {
        let next = self.start(self.members.len(), 0, role).await?;
        self.members.push(next);
        Ok(())
    }

    async fn start(&mut self, place: usize, life: u32, role: Role) -> Result<Running> {
        let instance = place as u32;
        let mut member = Member::start(self.program, instance + 1)?;
        let assignment = Assignment {
            design: self.design.name.to_owned(),
            work: self.work.clone(),
            seed: self.seed,
            instance,
            database: self.shop.database_url().to_owned(),
            redis: self.shop.redis_url(),
            more_redis: Vec::new(),
            role,
        };
        member.assign(&assignment).await?;
        if let Some(lines) = member.take_lines() {
            self.readers.spawn(read(lines, place, life, self.sender.clone()));
        }
        Ok(Running { member, life, is_starting: true })
    }
}

/// Passes on the reports of a process until it ends.
async fn read(mut lines: Lines, place: usize, life: u32, to: mpsc::Sender<Incoming>) {
    loop {
        let report = lines.next().await;
        let is_last = !matches!(report, Ok(Some(_)));
        if to.send(Incoming { place, life, report }).await.is_err() || is_last {
            return;
        }
    }
}

async fn orders(sql: &mut PlainConnection) -> Result<BTreeSet<i64>> {
    let query = "SELECT id FROM tb_voucher_order WHERE voucher_id = $1";
    let rows = sql.rows::<1>(query, &[VOUCHER]).await.map_err(LabError::from)?;
    Ok(rows.into_iter().map(|[id]| id).collect())
}
