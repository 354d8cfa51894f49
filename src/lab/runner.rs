//! Runs designs one after the other, on one shop.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{
    Database, Design, Disruption, LabError, Program, Report, Result, Run, Verdict,
    fleet::Fleet,
    instance::{Assignment, Served},
    latency::Samples,
    report::{DesignReport, Missing, NotApplicable},
    shop::Shop,
    timeline,
    trace::{Action, Instant, Step},
    work::Work,
};

/// What the lab does.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The designs, in this order.
    pub designs: Vec<&'static Design>,
    /// The databases, each with all designs.
    pub databases: Vec<Database>,
    /// The work of each.
    pub work: Work,
    /// One run per design and seed.
    pub seeds: Vec<u64>,
    /// The program of the instances.
    pub program: Program,
}

/// A run that begins.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The database.
    pub database: Database,
    /// The design.
    pub design: &'static Design,
    /// What happens to the holders of locks.
    pub disruption: Option<Disruption>,
    /// The seed.
    pub seed: u64,
    /// Runs that are done.
    pub done: usize,
    /// All runs.
    pub runs: usize,
}

impl Lab {
    /// Runs each design with each seed, and reports on all. `progress` is told of each run; `stop` ends them all.
    ///
    /// # Errors
    /// The work is invalid, a server or an instance failed, or the runs were cancelled. In any case, the servers are
    /// stopped and their files removed.
    pub async fn run(
        &self,
        progress: impl Fn(Progress),
        stop: &CancellationToken,
    ) -> Result<Report> {
        self.work.check()?;
        let mut report = Report::new(self.work, self.seeds.clone());
        for (number, database) in self.databases.iter().enumerate() {
            let mut shop = match Shop::open(*database, stop).await {
                Ok(shop) => shop,
                Err(LabError::Database(database, reason)) => {
                    report.missing.push(Missing { database, reason });
                    continue;
                }
                Err(error) => return Err(error),
            };
            let done = number * self.runs_in_a_database();
            let designs = self.run_in(&mut shop, done, &progress, stop).await;
            let closed = shop.close().await;
            report.designs.extend(designs?);
            closed?;
            let lacking = self.designs.iter().filter(|it| it.not_on.contains(database));
            report
                .not_applicable
                .extend(lacking.map(|it| NotApplicable { name: it.name, database: *database }));
        }
        Ok(report)
    }

    /// Runs all designs on one shop, after `done` other runs.
    pub(crate) async fn run_in(
        &self,
        shop: &mut Shop,
        mut done: usize,
        progress: impl Fn(Progress),
        stop: &CancellationToken,
    ) -> Result<Vec<DesignReport>> {
        let runs = self.databases.len() * self.runs_in_a_database();
        let database = shop.database();
        let mut reports = Vec::new();
        for design in &self.designs {
            if design.not_on.contains(&database) {
                done += design.question.disruptions().len() * self.seeds.len();
                continue;
            }
            for work in design.question.works(&self.work) {
                let mut report = DesignReport::new(design, database, &work);
                for seed in &self.seeds {
                    let disruption = work.disruption;
                    progress(Progress { database, design, disruption, seed: *seed, done, runs });
                    let served = self.serve(shop, design, &work, *seed, stop).await?;
                    Self::judge(shop, design, &work, &mut report, *seed, &served).await?;
                    done += 1;
                }
                reports.push(report);
            }
        }
        Ok(reports)
    }

    fn runs_in_a_database(&self) -> usize {
        let rows = self.designs.iter().map(|it| it.question.disruptions().len());
        rows.sum::<usize>() * self.seeds.len()
    }

    /// Sets the shop up for one run, and serves all requests.
    pub(crate) async fn serve(
        &self,
        shop: &mut Shop,
        design: &Design,
        work: &Work,
        seed: u64,
        stop: &CancellationToken,
    ) -> Result<Vec<Served>> {
        if stop.is_cancelled() {
            return Err(LabError::Cancelled);
        }
        shop.set_up(design, work).await?;
        self.serve_requests(shop, design, work, seed, stop).await
    }

    /// Serves all requests in the shop as it is.
    pub(crate) async fn serve_requests(
        &self,
        shop: &mut Shop,
        design: &Design,
        work: &Work,
        seed: u64,
        stop: &CancellationToken,
    ) -> Result<Vec<Served>> {
        let assignments: Vec<Assignment> = (0..work.processes(seed))
            .map(|instance| Assignment {
                design: design.name.to_owned(),
                work: *work,
                seed,
                instance,
                database: shop.database_url().to_owned(),
                redis: shop.redis_url(),
                more_redis: shop.more_redis_urls(),
            })
            .collect();
        let mut fleet = Fleet::start(&self.program, &assignments)?;
        let serving = async {
            fleet.connect(&assignments).await?;
            serve_all(&mut fleet, shop, work).await
        };
        let served = tokio::select! {
            served = serving => served,
            () = stop.cancelled() => Err(LabError::Cancelled),
        };
        fleet.end().await;
        served
    }

    async fn judge(
        shop: &Shop,
        design: &Design,
        work: &Work,
        report: &mut DesignReport,
        seed: u64,
        served: &[Served],
    ) -> Result<()> {
        let mut sql = shop.sql().await?;
        let verdict = Verdict::count(&mut sql, design, work, served).await?;
        for promise in &verdict.broken {
            if !report.timelines.iter().any(|it| it.promise == *promise) {
                report.timelines.extend(timeline::find(*promise, seed, work, served));
            }
        }
        report.add(Run { seed, verdict }, Samples::of(served));
        Ok(())
    }
}

/// Serves all requests. If the work has a disruption, the holders of locks come first: it happens as soon as each of
/// them holds its lock, and the others follow.
async fn serve_all(fleet: &mut Fleet, shop: &mut Shop, work: &Work) -> Result<Vec<Served>> {
    let held = fleet.hold().await?;
    let begun = Instant::now();
    let mut paused = None;
    match work.disruption.filter(|_| !held.is_empty()) {
        // It stalls by itself.
        Some(Disruption::Stall) | None => {}
        Some(Disruption::Pause) => paused = fleet.pause_holder()?,
        Some(Disruption::Death) => fleet.kill_holder().await?,
        Some(Disruption::Failover) => shop.fail_over().await?,
    }
    let ended = Instant::now();
    fleet.go().await?;
    if paused.is_some() {
        // As long as a stall that begins when the locks are taken.
        let taken = held.iter().flat_map(|it| &it.steps).filter(|it| it.action == Action::Acquire);
        let taken = taken.map(|it| it.ended).max().unwrap_or(ended);
        let since = Duration::from_nanos(Instant::now().since(taken));
        tokio::time::sleep(work.stall().saturating_sub(since)).await;
        drop(paused);
    }
    let mut served = fleet.served().await?;
    if work.disruption == Some(Disruption::Death) {
        served.extend(held.iter().cloned());
    }
    if let Some(what) = work.disruption.and_then(Disruption::command) {
        // It is a step of each request that it happened to.
        let happened_to = |it: &&mut Served| held.iter().any(|held| held.lane() == it.lane());
        for served in served.iter_mut().filter(happened_to) {
            let (what, action) = (what.into(), Action::Disruption);
            let (values, saw) = (Vec::new(), Vec::new());
            let step = served.steps.first().cloned();
            let step = step.map(|it| Step { action, what, values, saw, begun, ended, ..it });
            served.steps.extend(step);
        }
    }
    Ok(served)
}
