//! Runs designs one after the other, on one shop.

use tokio_util::sync::CancellationToken;

use crate::{
    Database, Design, LabError, Program, Promise, Report, Result, Run, Verdict,
    fleet::Fleet,
    hand_over::{Crew, Ran},
    instance::{Assignment, Role, Served},
    latency::Samples,
    report::{self, DesignReport, Missing},
    shop::Shop,
    timeline,
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
    /// The seed.
    pub seed: u64,
    /// Runs that are done.
    pub done: usize,
    /// All runs.
    pub runs: usize,
}

impl Lab {
    /// Runs each design with each seed, and reports on all. Calls `progress` before each run; `stop` ends all
    /// of them.
    ///
    /// # Errors
    /// The work is invalid, a server or an instance failed, or the runs were cancelled. In any case, the servers are
    /// stopped and their files removed.
    pub async fn run(
        &self,
        progress: impl Fn(Progress),
        stop: &CancellationToken,
    ) -> Result<Report> {
        self.watch(progress, |_| {}, stop).await
    }

    /// As [`Self::run`]; after each run, calls `ended` with all runs of its design so far.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn watch(
        &self,
        progress: impl Fn(Progress),
        ended: impl Fn(&DesignReport),
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
            let done = number * self.designs.len() * self.seeds.len();
            let designs = self.run_in(&mut shop, done, &progress, &ended, stop).await;
            let closed = shop.close().await;
            report.designs.extend(designs?);
            closed?;
        }
        Ok(report)
    }

    /// Runs all designs on one shop, after `done` other runs.
    pub(crate) async fn run_in(
        &self,
        shop: &mut Shop,
        mut done: usize,
        progress: impl Fn(Progress),
        ended: impl Fn(&DesignReport),
        stop: &CancellationToken,
    ) -> Result<Vec<DesignReport>> {
        let runs = self.databases.len() * self.designs.len() * self.seeds.len();
        let database = shop.database();
        let mut designs = Vec::new();
        for design in &self.designs {
            let mut report = DesignReport::new(design, database, &self.work);
            for seed in &self.seeds {
                progress(Progress { database, design, seed: *seed, done, runs });
                let ran = self.serve(shop, design, *seed, stop).await?;
                self.judge(shop, design, &mut report, *seed, &ran).await?;
                ended(&report);
                done += 1;
            }
            designs.push(report);
        }
        report::compare(&mut designs);
        Ok(designs)
    }

    /// Sets the shop up for one run, and serves all requests.
    pub(crate) async fn serve(
        &self,
        shop: &mut Shop,
        design: &Design,
        seed: u64,
        stop: &CancellationToken,
    ) -> Result<Ran> {
        if stop.is_cancelled() {
            return Err(LabError::Cancelled);
        }
        shop.set_up(design, &self.work).await?;
        let Some(consumer) = design.consumer else {
            let served = self.serve_requests(shop, design, seed, stop).await?;
            return Ok(Ran { served, ..Ran::default() });
        };
        let mut crew = Crew::new(&self.program, shop, design, consumer, (self.work, seed));
        let ran = tokio::select! {
            ran = crew.run() => ran,
            () = stop.cancelled() => Err(LabError::Cancelled),
        };
        crew.end().await;
        ran
    }

    /// Serves all requests in the shop as it is.
    pub(crate) async fn serve_requests(
        &self,
        shop: &Shop,
        design: &Design,
        seed: u64,
        stop: &CancellationToken,
    ) -> Result<Vec<Served>> {
        let assignments: Vec<Assignment> = (0..self.work.instances)
            .map(|instance| Assignment {
                design: design.name.to_owned(),
                work: self.work,
                seed,
                instance,
                database: shop.database_url().to_owned(),
                redis: shop.redis_url(),
                role: Role::Serve(None),
            })
            .collect();
        let mut fleet = Fleet::start(&self.program, &assignments)?;
        let served = tokio::select! {
            served = fleet.work(&assignments) => served,
            () = stop.cancelled() => Err(LabError::Cancelled),
        };
        fleet.end().await;
        served
    }

    async fn judge(
        &self,
        shop: &Shop,
        design: &Design,
        report: &mut DesignReport,
        seed: u64,
        Ran { served, consumed, scripts }: &Ran,
    ) -> Result<()> {
        let mut sql = shop.sql().await?;
        let mut verdict = Verdict::count(&mut sql, design, &self.work, served).await?;
        if let Some(scripts) = scripts {
            verdict.redis = *scripts;
        }
        for promise in &verdict.broken {
            if !report.timelines.iter().any(|it| it.promise == *promise) {
                let found = match promise {
                    Promise::NoLoss => {
                        timeline::find_lost(seed, &self.work, (served, consumed), &verdict.orders)
                    }
                    _ => timeline::find(*promise, seed, &self.work, served),
                };
                report.timelines.extend(found);
            }
        }
        report.add(Run { seed, verdict }, Samples::of(served));
        Ok(())
    }
}
