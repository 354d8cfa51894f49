//! The report: each design with its runs, figures and timelines, as JSON and as Markdown.

use std::{collections::BTreeMap, fmt::Write as _};

use seckill_model::{Label, in_english, text};
use serde::Serialize;

use crate::{
    Action, Database, Design, Incident, Latency, Promise, Question, Source, Step, Timeline,
    Verdict, lane::CONSUMER, latency::Samples, stalls::MOST_WITH_INCIDENT, work::Work,
};

/// Indentation of the second lane of a timeline.
const INDENT: usize = 4;
/// Shortest duration of an acquisition that is shown, in milliseconds.
const SHOWN_MS: u64 = 20;

/// All designs on the same work.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The work.
    pub work: Work,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The designs of each database, in the order of the tutorials.
    pub designs: Vec<DesignReport>,
    /// Designs that a database lacks something for: they were not run on it.
    pub not_applicable: Vec<NotApplicable>,
}

/// A design that does not exist on a database.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NotApplicable {
    /// The name of the design.
    pub name: &'static str,
    /// The database.
    pub database: Database,
}

impl NotApplicable {
    /// The message, in the current language.
    pub fn text(&self) -> String {
        text!("lab-not-applicable", design = self.name, database = self.database.title())
    }
}

/// One design, in one work of its question.
#[derive(Clone, Debug, Serialize)]
pub struct DesignReport {
    /// Its name.
    pub name: &'static str,
    /// The database on which it ran.
    pub database: Database,
    /// What happened to the holders of its locks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incident: Option<Incident>,
    /// The question that it answers.
    pub question: Question,
    /// Where the tutorials describe it.
    pub source: Source,
    /// The promises that it is known to break with this work.
    pub breaks: Vec<Promise>,
    /// The promises that it keeps with this work.
    pub keeps: Vec<Promise>,
    /// The design that fixes it.
    pub mended_by: Option<&'static str>,
    /// Why it breaks or keeps its promises.
    pub why: String,
    /// In how many seeds it broke each promise that it broke.
    pub broken: BTreeMap<Promise, u32>,
    /// Promises that it broke although it keeps them: a defect of the design or of the lab.
    pub unexpected: Vec<Promise>,
    /// Latency and throughput over all seeds.
    pub latency: Latency,
    /// Compared with the first design of its question on the same database, in the same incident.
    pub ratio: Ratio,
    /// Statements to the database per request.
    pub sql_per_request: f64,
    /// Commands to Redis per request.
    pub redis_per_request: f64,
    /// One run per seed.
    pub runs: Vec<Run>,
    /// One timeline per broken promise.
    pub timelines: Vec<Timeline>,
    #[serde(skip)]
    samples: Samples,
    #[serde(skip)]
    text: &'static Design,
}

/// A design compared with the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ratio {
    /// How many times as many requests per second.
    pub throughput: f64,
    /// How many times the mean latency.
    pub average: f64,
}

/// Compares the designs of each question and incident on one database with the first one.
pub(crate) fn compare(designs: &mut [DesignReport]) {
    let mut firsts = BTreeMap::new();
    for design in designs {
        let Latency { throughput, average, .. } = design.latency;
        let first = firsts.entry((design.question, design.incident)).or_insert(design.latency);
        let of = |value: f64, base: f64| value / base.max(f64::MIN_POSITIVE);
        design.ratio = Ratio {
            throughput: of(throughput, first.throughput),
            average: of(average, first.average),
        };
    }
}

/// One run of a design.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// What was counted.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl DesignReport {
    /// A design that has not run yet.
    pub fn new(design: &'static Design, database: Database, work: &Work) -> Self {
        let asked = Promise::all().filter(|promise| design.question.asks_for(*promise));
        let (keeps, breaks) = asked.partition(|promise| design.keeps(*promise, work));
        Self {
            name: design.name,
            database,
            incident: work.holder_incident(),
            question: design.question,
            source: design.source,
            breaks,
            keeps,
            mended_by: design.mended_by,
            why: in_english(|| design.why.to_owned()),
            broken: BTreeMap::new(),
            unexpected: Vec::new(),
            latency: Latency::default(),
            ratio: Ratio::default(),
            sql_per_request: 0.0,
            redis_per_request: 0.0,
            runs: Vec::new(),
            timelines: Vec::new(),
            samples: Samples::default(),
            text: design,
        }
    }

    pub(crate) fn add(&mut self, run: Run, samples: Samples) {
        for promise in &run.verdict.broken {
            *self.broken.entry(*promise).or_default() += 1;
            if self.keeps.contains(promise) && !self.unexpected.contains(promise) {
                self.unexpected.push(*promise);
            }
        }
        self.samples.add(samples);
        self.latency = self.samples.clone().report();
        self.runs.push(run);
        let requests = self.sum(|it| it.requests).max(1) as f64;
        self.sql_per_request = self.sum(|it| it.sql) as f64 / requests;
        self.redis_per_request = self.sum(|it| it.redis) as f64 / requests;
    }

    /// Its name with what happened to the holders of its locks.
    pub fn label(&self) -> String {
        self.text.label(self.incident)
    }

    fn sum(&self, figure: impl Fn(&Verdict) -> u64) -> u64 {
        self.runs.iter().map(|it| figure(&it.verdict)).sum()
    }

    /// The median of a figure over all seeds.
    pub fn median(&self, figure: impl Fn(&Verdict) -> u64) -> u64 {
        let mut figures: Vec<u64> = self.runs.iter().map(|it| figure(&it.verdict)).collect();
        figures.sort_unstable();
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    }

    /// In how many seeds it broke which promise, as a text; empty if it kept all and promises to.
    pub fn broken_text(&self) -> String {
        if self.broken.is_empty() && !self.breaks.is_empty() {
            return text!("lab-not-caught");
        }
        let seeds = self.runs.len();
        let parts = self.broken.iter().map(|(promise, count)| {
            text!("lab-broken", promise = promise.title(), count = *count, seeds)
        });
        parts.collect::<Vec<_>>().join(&Label("list-parts"))
    }

    /// Why it breaks or keeps its promises, in the current language.
    pub fn why_text(&self) -> &'static str {
        self.text.why.read()
    }
}

impl Report {
    pub(crate) fn new(work: Work, seeds: Vec<u64>) -> Self {
        Self { work, seeds, designs: Vec::new(), not_applicable: Vec::new() }
    }

    /// The designs with the same question on the same database, and their title.
    pub fn groups(&self) -> impl Iterator<Item = (String, &[DesignReport])> {
        let of = |it: &DesignReport| (it.database, it.question);
        self.designs.chunk_by(move |one, next| of(one) == of(next)).map(|group| {
            let title = group
                .first()
                .map(|it| format!("{} ({})", it.question.title(), it.database.title()));
            (title.unwrap_or_default(), group)
        })
    }

    /// Whether a design broke a promise that it keeps.
    pub fn is_unexpected(&self) -> bool {
        self.designs.iter().any(|it| !it.unexpected.is_empty())
    }

    /// The work, in the current language.
    pub fn work_text(&self) -> String {
        let Work { buyers, stock, repeat, concurrency, instances, think_ms: think, .. } = self.work;
        let percent = (repeat * 100.0).round() as u64;
        let seeds = self.seeds.len();
        let mut work =
            text!("lab-work", buyers, stock, percent, concurrency, instances, think, seeds);
        let has = |question| self.designs.iter().any(|it| it.question == question);
        if has(Question::Locks) || has(Question::HandOver) {
            let incidents = self.work.incidents.iter().filter(|it| has(it.question()));
            let _ = write!(work, " {}", Work::incidents_text(incidents));
        }
        if self.designs.iter().any(|it| it.incident.is_some()) {
            let (buyers, concurrency) = MOST_WITH_INCIDENT;
            let _ = write!(work, " {}", text!("lab-few-requests", buyers, concurrency));
        }
        work
    }

    /// As Markdown, for a class or a review, in the current language.
    pub fn markdown(&self) -> String {
        let (title, texts) = (Label("lab-title"), Label("lab-texts"));
        let mut page = format!("# {title}\n\n{}\n\n{texts}\n", self.work_text());
        for lacking in &self.not_applicable {
            let _ = write!(page, "\n{}\n", lacking.text());
        }
        for (title, designs) in self.groups() {
            let _ = write!(page, "\n## {title}\n\n");
            table(&mut page, designs);
            let _ = write!(page, "\n{}\n\n", Label("lab-aggregate-title"));
            aggregate(&mut page, designs);
        }
        for design in &self.designs {
            design.section(&mut page);
        }
        page
    }
}

/// What was counted.
fn table(page: &mut String, designs: &[DesignReport]) {
    let _ = writeln!(page, "| {} |", Label("lab-columns"));
    let _ = writeln!(page, "|{}", " --- |".repeat(9));
    for design in designs {
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {} |",
            design.label(),
            design.median(|it| it.sold),
            design.median(|it| it.oversold),
            design.median(|it| it.users_with_two_orders),
            design.median(|it| it.unsold),
            design.median(|it| it.lost),
            design.sql_per_request,
            design.redis_per_request,
            or_none(&design.broken_text()),
        );
    }
}

/// Times and throughput, with the columns of `JMeter`.
fn aggregate(page: &mut String, designs: &[DesignReport]) {
    let _ = writeln!(page, "| {} |", Label("lab-aggregate-columns"));
    let _ = writeln!(page, "|{}", " --- |".repeat(13));
    for design in designs {
        let Latency { samples, average, median, p90, p95, p99, .. } = design.latency;
        let Latency { min, max, error_percent, throughput, .. } = design.latency;
        let _ = writeln!(
            page,
            "| {} | {samples} | {average:.1} | {median:.1} | {p90:.1} | {p95:.1} | {p99:.1} | \
             {min:.1} | {max:.1} | {error_percent:.2} | {throughput:.0} | {:.2} | {:.2} |",
            design.label(),
            design.ratio.throughput,
            design.ratio.average
        );
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

impl DesignReport {
    fn section(&self, page: &mut String) {
        if self.incident.is_none() {
            let Source { text, section } = self.source;
            let (name, database) = (self.name, self.database.title());
            let source = text!("lab-source", text, section);
            let _ = write!(page, "\n## `{name}` ({database})\n\n{source}");
            let _ = write!(page, " {}", self.why_text());
            if let Some(design) = self.mended_by {
                let _ = write!(page, " {}", text!("lab-mended-by", design));
            }
            page.push('\n');
        } else if !self.timelines.is_empty() {
            let _ = write!(page, "\n## {} ({})\n", self.label(), self.database.title());
        }
        for (title, timeline) in self.interleavings() {
            timeline.markdown(&title, page);
        }
    }

    /// The timelines, each with its title. One that shows several broken promises comes once.
    pub fn interleavings(&self) -> impl Iterator<Item = (String, &Timeline)> {
        fn steps(timeline: &Timeline) -> impl Iterator<Item = &Step> {
            timeline.lines.iter().map(|it| &it.step)
        }
        let mut groups: Vec<(&Timeline, Vec<&str>)> = Vec::new();
        for timeline in &self.timelines {
            let promise = timeline.promise.title().read();
            match groups.iter_mut().find(|(first, _)| steps(first).eq(steps(timeline))) {
                Some((_, promises)) => promises.push(promise),
                None => groups.push((timeline, vec![promise])),
            }
        }
        groups.into_iter().map(|(timeline, promises)| {
            let promise = promises.join(&Label("list-parts"));
            (text!("lab-timeline", promise, seed = timeline.seed.to_string()), timeline)
        })
    }
}

impl Timeline {
    /// A table with a column per lane.
    fn markdown(&self, title: &str, page: &mut String) {
        let _ = write!(page, "\n### {title}\n\n|");
        let titles = std::iter::once("µs".to_owned()).chain(self.titles());
        titles.for_each(|title| {
            let _ = write!(page, " {title} |");
        });
        let _ = writeln!(page, "\n|{}", " --- |".repeat(self.lanes.len() + 1));
        for line in &self.lines {
            let _ = write!(page, "| {:.0} |", line.ended_us);
            for column in 0..self.lanes.len() {
                let cell = if column == line.column { line.text() } else { String::new() };
                let _ = write!(page, " {cell} |");
            }
            page.push('\n');
        }
    }

    /// As text, with a column per lane: the steps of the second lane are indented.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (column, title) in self.titles().iter().enumerate() {
            let _ = writeln!(text, "{:10}{:width$}{title}", "", "", width = column * INDENT);
        }
        for line in &self.lines {
            let (at, width) = (line.ended_us, line.column * INDENT);
            let _ = writeln!(text, "{at:7.0} us {:width$}{}", "", line.text());
        }
        text
    }

    /// The title of each lane: its request and user, and the process.
    pub fn titles(&self) -> Vec<String> {
        let title = |(column, lane): (usize, &u32)| {
            let first = self.lines.iter().find(|it| it.column == column).map(|it| &it.step);
            let (user, instance) = first.map_or((0, 0), |it| (it.user, it.instance));
            let (process, request, user) =
                (instance.to_string(), lane.to_string(), user.to_string());
            match (*lane == CONSUMER, instance > self.instances) {
                (true, true) => text!("lab-lane-consumer", process),
                (true, false) => text!("lab-lane-consumer-task", process),
                (false, true) => text!("lab-lane-holder", request, user, process),
                (false, false) => text!("lab-lane", request, user, instance = process),
            }
        };
        self.lanes.iter().enumerate().map(title).collect()
    }
}

impl crate::Line {
    /// The step as text: the statement or command as it was sent, and what came back.
    pub fn text(&self) -> String {
        self.what_text() + &self.saw_text()
    }

    /// The statement or command as it was sent.
    fn what_text(&self) -> String {
        let what = &self.step.what;
        match self.step.action {
            Action::Lock => text!("lab-step-lock", lock = what),
            Action::Unlock => text!("lab-step-unlock", lock = what),
            Action::Killed => text!("lab-step-killed", signal = what),
            Action::Stall => {
                let millis = self.step.values.first().copied().unwrap_or_default();
                text!("lab-step-stall", millis)
            }
            Action::Incident => text!("lab-step-incident", what),
            Action::LeaseEnd => {
                let millis = self.step.values.first().copied().unwrap_or_default();
                text!("lab-step-lease-end", millis)
            }
            Action::Memory => {
                let by = self.step.values.first().copied().unwrap_or_default();
                format!("{} += {by}", filled(what, &self.step.values))
            }
            _ => filled(what, &self.step.values),
        }
    }

    /// What came back, after an arrow; empty if nothing did.
    fn saw_text(&self) -> String {
        let mut text = String::new();
        let saw = self.step.saw.to_string();
        if self.step.saw.numbers() == [0, 0] && self.step.lane == CONSUMER {
            let _ = write!(text, " → {}", Label("lab-step-no-order"));
        } else if !saw.is_empty() {
            let _ = write!(text, " → {saw}");
        }
        let millis = (self.ended_us - self.begun_us) as u64 / 1_000;
        if matches!(self.step.action, Action::Acquire | Action::Lock) && millis >= SHOWN_MS {
            let _ = write!(text, " ({})", text!("lab-took", millis));
        }
        if ["BLOCK", "BRPOP"].iter().any(|it| self.step.what.contains(it)) {
            // What arrived before the call explains what `$` skips.
            let micros = format!("{:.0}", self.begun_us);
            let _ = write!(text, " ({})", text!("lab-called-at", micros));
        }
        if let Some(count) = self.refused_before {
            let _ = write!(text, " ({})", text!("lab-refused-before", count));
        }
        if let Some(request) = self.lock_of {
            let _ = write!(text, " ({})", text!("lab-lock-of", request = request.to_string()));
        }
        if let Some(piece) = self.piece {
            let _ = write!(text, " ({})", text!("lab-piece", piece));
        }
        text
    }
}

/// A statement with its values in place of the placeholders.
fn filled(sql: &str, values: &[i64]) -> String {
    let mut text = sql.to_owned();
    for (place, value) in values.iter().enumerate().rev() {
        text = text.replace(&format!("${}", place + 1), &value.to_string());
    }
    text
}
