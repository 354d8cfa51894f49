//! Runs designs one after the other, on one shop.

use tokio_util::sync::CancellationToken;

use crate::{
    Database, Design, Incident, LabError, Program, Promise, Report, Result, Run, Verdict,
    fleet::Fleet,
    hand_over::{Crew, Ran},
    holders,
    latency::Samples,
    parent::{Assignment, Role, Served},
    report::{self, DesignReport, NotApplicable},
    shop::Shop,
    sql_server, timeline,
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
    /// One run per seed of each design, in each work of its question.
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
    /// What happens to the holders of its locks.
    pub incident: Option<Incident>,
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
    /// The work is invalid, a database is not installed, a server or an instance failed, or the runs were cancelled. In any case, the servers are
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
        // Before the first run, which may be one of many.
        self.databases.iter().try_for_each(|database| sql_server::find(*database))?;
        let mut report = Report::new(self.work.clone(), self.seeds.clone());
        for (number, database) in self.databases.iter().enumerate() {
            let mut shop = Shop::open(*database, stop).await?;
            let done = self.databases.iter().take(number).map(|it| self.runs_on(*it)).sum();
            let designs = self.run_in(&mut shop, done, &progress, &ended, stop).await;
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
        ended: impl Fn(&DesignReport),
        stop: &CancellationToken,
    ) -> Result<Vec<DesignReport>> {
        let runs = self.databases.iter().map(|it| self.runs_on(*it)).sum();
        let database = shop.database();
        let mut designs = Vec::new();
        for design in &self.designs {
            if design.not_on.contains(&database) {
                continue;
            }
            for work in design.question.works(&self.work) {
                let mut report = DesignReport::new(design, database, &work);
                let incident = report.incident;
                for seed in &self.seeds {
                    progress(Progress { database, design, incident, seed: *seed, done, runs });
                    let ran = self.serve(shop, design, &work, *seed, stop).await?;
                    judge(shop, design, &work, &mut report, *seed, &ran).await?;
                    ended(&report);
                    done += 1;
                }
                designs.push(report);
            }
        }
        report::compare(&mut designs);
        Ok(designs)
    }

    fn runs_on(&self, database: Database) -> usize {
        let designs = self.designs.iter().filter(|it| !it.not_on.contains(&database));
        let works = designs.map(|it| it.question.works(&self.work).len());
        works.sum::<usize>() * self.seeds.len()
    }

    /// Sets the shop up for one run, and serves all requests.
    pub(crate) async fn serve(
        &self,
        shop: &mut Shop,
        design: &Design,
        work: &Work,
        seed: u64,
        stop: &CancellationToken,
    ) -> Result<Ran> {
        if stop.is_cancelled() {
            return Err(LabError::Cancelled);
        }
        shop.set_up(design, work).await?;
        let Some(consumer) = design.consumer else {
            let served = self.serve_requests(shop, design, work, seed, stop).await?;
            return Ok(Ran { served, ..Ran::default() });
        };
        let mut crew = Crew::new(&self.program, shop, design, consumer, (work.clone(), seed));
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
        shop: &mut Shop,
        design: &Design,
        work: &Work,
        seed: u64,
        stop: &CancellationToken,
    ) -> Result<Vec<Served>> {
        let hold = work.holder_incident().map(|_| Role::Hold);
        let roles = (0..work.instances).map(|_| Role::Serve(None)).chain(hold);
        let assignments: Vec<Assignment> = (0..)
            .zip(roles)
            .map(|(instance, role)| Assignment {
                design: design.name.to_owned(),
                work: work.clone(),
                seed,
                instance,
                database: shop.database_url().to_owned(),
                redis: shop.redis_url(),
                more_redis: shop.more_redis_urls(),
                role,
            })
            .collect();
        let mut fleet = Fleet::start(&self.program, &assignments)?;
        let serving = async {
            fleet.connect(&assignments).await?;
            holders::serve(&mut fleet, shop, work).await
        };
        let served = tokio::select! {
            served = serving => served,
            () = stop.cancelled() => Err(LabError::Cancelled),
        };
        fleet.end().await;
        served
    }
}

/// Adds the verdict on one run to the report, with a timeline of each promise that was not broken before.
async fn judge(
    shop: &Shop,
    design: &Design,
    work: &Work,
    report: &mut DesignReport,
    seed: u64,
    Ran { served, consumed, scripts }: &Ran,
) -> Result<()> {
    let mut sql = shop.sql().await?;
    let mut verdict = Verdict::count(&mut sql, design, work, served).await?;
    if let Some(scripts) = scripts {
        verdict.redis = *scripts;
    }
    for promise in &verdict.broken {
        if !report.timelines.iter().any(|it| it.promise == *promise) {
            let found = match promise {
                Promise::NoLoss => {
                    timeline::find_lost(seed, work, (served, consumed), &verdict.orders)
                }
                _ => timeline::find(*promise, seed, work, served),
            };
            report.timelines.extend(found);
        }
    }
    report.add(Run { seed, verdict }, Samples::of(served));
    Ok(())
}
