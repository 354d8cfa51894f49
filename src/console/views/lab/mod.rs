//! Lab: the designs of the tutorials on the same work, chosen, run and judged on temporary servers.
//!
//! Its rows are not part of a snapshot: the view owns the run, its results and the cursor.

mod bars;
mod outcome;
mod page;
pub(crate) mod run;
mod table;

use std::collections::BTreeSet;

use seckill_lab::{Database, Design, DesignReport, Lab, LabError, NotApplicable, Timeline, Work};

use self::{
    outcome::Outcome,
    run::{LabEvent, LabRun},
};
use super::{
    draw_head,
    prelude::*,
    table::{Controls, Extent, Sheet, draw_scrollbar, library_table, passes},
};
use crate::{
    LabSetup,
    dialogs::{Dialog, Form},
    text::conventions,
};

/// From this width on, the bars are beside the table.
const WIDE: u16 = 150;
/// Rows that the table keeps, with its headings: in a full window, and in a compact one.
const LEAST: [u16; 2] = [6, 4];

/// What is below the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Panel {
    /// The design under the cursor.
    #[default]
    Detail,
    /// The throughput of each design.
    Bars,
}

/// The broken promise on the page of a design, and the first line on the screen.
#[derive(Clone, Copy, Debug, Default)]
struct Opened {
    which: usize,
    top: usize,
}

pub(crate) struct LabState {
    controls: Controls,
    /// Name of the design under the cursor; the first row if it is not shown.
    cursor: &'static str,
    marks: BTreeSet<&'static str>,
    setup: LabSetup,
    /// Those of each design and database that has run on this work.
    results: Vec<DesignReport>,
    panel: Panel,
    opened: Opened,
    running: Option<LabRun>,
}

impl Default for LabState {
    fn default() -> Self {
        Self {
            controls: Controls::default(),
            cursor: seckill_lab::all().first().map_or("", |it| it.name),
            marks: BTreeSet::new(),
            setup: LabSetup::default(),
            results: Vec::new(),
            panel: Panel::default(),
            opened: Opened::default(),
            running: None,
        }
    }
}

impl LabState {
    /// Sets what can be run, and marks the designs that were asked for.
    pub(crate) fn set_up(&mut self, setup: LabSetup) {
        self.marks = setup.designs.iter().map(|it| it.name).collect();
        self.cursor = setup.designs.first().map_or(self.cursor, |it| it.name);
        self.setup = setup;
    }

    /// Sets the work. Results of other work are not comparable, so they are discarded.
    pub(crate) fn set_work(&mut self, work: Work, seeds: Vec<u64>) {
        if (&work, &seeds) != (&self.setup.work, &self.setup.seeds) {
            (self.setup.work, self.setup.seeds) = (work, seeds);
            self.results.clear();
            self.controls.detail = false;
        }
    }

    /// The designs that the filter lets through.
    fn designs(&self) -> Vec<&'static Design> {
        let filter = self.controls.filter.value().to_lowercase();
        let is_shown = |design: &&'static Design| {
            let (title, verdict) = (design.question.title(), self.verdict(design, usize::MAX));
            let text = format!("{} {title} {verdict}", design.name).to_lowercase();
            passes(&filter, |word| text.contains(word))
        };
        seckill_lab::all().iter().copied().filter(is_shown).collect()
    }

    fn chosen(&self) -> Option<&'static Design> {
        let designs = self.designs();
        let at = designs.iter().position(|it| it.name == self.cursor).unwrap_or(0);
        designs.get(at).copied()
    }

    /// What came of a design on the chosen database.
    fn outcome(&self, design: &Design) -> Option<Outcome<'_>> {
        let database = self.setup.database;
        let is_its = |it: &&DesignReport| it.name == design.name && it.database == database;
        let runs = design.question.works(&self.setup.work).len() * self.setup.seeds.len();
        Outcome::new(self.results.iter().filter(is_its).collect(), runs)
    }

    /// The design whose page is on the screen.
    fn on_page(&self) -> Option<&'static Design> {
        self.chosen().filter(|_| self.controls.detail)
    }

    /// The broken promise on the page with its result, and how many there are.
    fn timeline(&self) -> Option<(&DesignReport, &Timeline, usize)> {
        let all = self.outcome(self.on_page()?)?.timelines();
        let which = self.opened.which.min(all.len().checked_sub(1)?);
        all.get(which).map(|(result, timeline)| (*result, *timeline, all.len()))
    }

    fn is_running(&self, design: &Design) -> bool {
        let progress = self.running.as_ref().and_then(|it| it.progress);
        progress.is_some_and(|it| it.design.name == design.name)
    }

    /// The work in one sentence, and the incidents if they are not those of the default.
    fn work_text(&self) -> String {
        let Work { buyers, stock, repeat, concurrency, instances, think_ms: think, ref incidents } =
            self.setup.work;
        let percent = (repeat * 100.0).round() as u64;
        let (on, seeds) = (self.setup.database.title(), self.setup.seeds.len());
        let mut text = text!(
            "lab-view-work",
            on,
            buyers,
            stock,
            percent,
            concurrency,
            instances,
            think,
            seeds
        );
        if *incidents != Work::default().incidents {
            text.push_str(". ");
            text.push_str(&Work::incidents_text(incidents));
        }
        text
    }

    /// Ends the run, if there is one; its servers are stopped meanwhile.
    pub(crate) fn cancel(&mut self) -> bool {
        self.running.as_mut().is_some_and(LabRun::cancel)
    }

    /// Ends the run and waits, for a limited time, until its servers are stopped.
    pub(crate) async fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.end().await;
        }
    }

    /// A run without a task.
    #[cfg(test)]
    pub(crate) fn fake_run(&mut self, progress: seckill_lab::Progress) {
        self.running = Some(LabRun::fake(progress));
    }

    /// The next event of the run; `None` without a run.
    pub(crate) async fn next(&mut self) -> Option<LabEvent> {
        self.running.as_mut()?.next().await
    }

    /// Follows the run; returns what the status line shows.
    pub(crate) fn on_event(&mut self, event: LabEvent) -> Effect {
        match event {
            LabEvent::Begins(progress) => {
                // The cursor stays on the design that runs, until the user moves it.
                let is_followed = self.chosen().is_some_and(|it| self.is_running(it));
                if is_followed && !self.controls.detail {
                    self.cursor = progress.design.name;
                }
                if let Some(running) = &mut self.running {
                    running.progress = Some(progress);
                }
                Effect::Done
            }
            LabEvent::Ended(result) => {
                self.add(*result);
                Effect::Done
            }
            LabEvent::Over(outcome) => {
                self.running = None;
                match outcome {
                    Ok(report) => {
                        let first = report.designs.iter().filter(|it| it.incident.is_none());
                        let done = text!("lab-view-done", count = first.count());
                        report.designs.into_iter().for_each(|it| self.add(it));
                        Effect::Success(done)
                    }
                    Err(LabError::Cancelled) => Effect::note(Label("lab-cancelled")),
                    Err(error) => Effect::Failure(error.to_string()),
                }
            }
        }
    }

    /// Adds a result, or replaces the one of the same design, database and incident.
    pub(crate) fn add(&mut self, result: DesignReport) {
        let key = |it: &DesignReport| (it.name, it.database, it.incident);
        match self.results.iter_mut().find(|it| key(it) == key(&result)) {
            Some(known) => *known = result,
            None => self.results.push(result),
        }
    }

    /// Runs the marked designs, or the one under the cursor.
    fn start(&mut self) -> Effect {
        let all = seckill_lab::all().iter().copied();
        let mut designs: Vec<_> = all.filter(|it| self.marks.contains(it.name)).collect();
        if designs.is_empty() {
            designs.extend(self.chosen());
        }
        let LabSetup { ref work, database, ref seeds, ref program, .. } = self.setup;
        if let [Design { name, not_on, .. }] = *designs
            && not_on.contains(&database)
        {
            return Effect::Note(NotApplicable { name, database }.text());
        }
        designs.retain(|it| !it.not_on.contains(&database));
        let Some(program) = program.clone().filter(|_| !designs.is_empty()) else {
            return Effect::note(Label("lab-view-unavailable"));
        };
        let runs = |it: &DesignReport| designs.iter().any(|design| design.name == it.name);
        self.results.retain(|it| it.database != database || !runs(it));
        let count = designs.len();
        self.cursor = designs.first().map_or(self.cursor, |it| it.name);
        let (databases, work, seeds) = (vec![database], work.clone(), seeds.clone());
        let lab = Lab { designs, databases, work, seeds, program };
        self.running = Some(LabRun::start(lab));
        self.marks.clear();
        self.controls.detail = false;
        self.panel = if count > 1 { Panel::Bars } else { Panel::Detail };
        Effect::Note(text!("lab-view-started", count, on = database.title()))
    }

    /// Opens the page of the design under the cursor.
    fn open(&mut self) -> Effect {
        if self.chosen().is_none() {
            return Effect::Note(conventions::no_row());
        }
        if !std::mem::replace(&mut self.controls.detail, true) {
            self.opened = Opened::default();
        }
        Effect::Done
    }

    /// Moves the cursor to the design that fixes this one.
    fn mend(&mut self, design: &Design) -> Effect {
        let mended = design.mended_by.and_then(|name| seckill_lab::find(name).ok());
        let Some(mended) = mended else {
            return Effect::Note(text!("lab-view-not-mended", design = design.name));
        };
        self.controls.detail = false;
        self.controls.filter.reset();
        (self.cursor, self.panel) = (mended.name, Panel::Detail);
        Effect::Done
    }

    /// Shows the bars, or the design under the cursor; on a page, the next broken promise.
    fn turn(&mut self) {
        if let Some((_, _, count)) = self.timeline() {
            self.opened.which = (self.opened.which + 1) % count;
        } else if self.on_page().is_none() {
            self.panel = match self.panel {
                Panel::Bars => Panel::Detail,
                Panel::Detail => Panel::Bars,
            };
        }
    }

    /// Marks all shown designs, or unmarks them.
    fn mark_all(&mut self) {
        let all: BTreeSet<_> = self.designs().iter().map(|it| it.name).collect();
        if all.is_subset(&self.marks) {
            self.marks.retain(|it| !all.contains(it));
        } else {
            self.marks.extend(all);
        }
    }
}

impl Component for LabState {
    fn keys() -> Vec<ViewKey> {
        vec![
            MARK,
            (Action::LabRun, "p", true),
            (Action::LabWork, "c", true),
            (Action::LabDatabase, "d", true),
            (Action::LabPanel, "b", true),
            (Action::LabMend, "n", true),
            (Action::MarkAll, "*", false),
            FILTER,
        ]
    }

    fn draw(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        if let Some(design) = self.on_page() {
            return self.draw_page(design, area, buffer, scene);
        }
        let heading = Line::styled(View::Lab.title().to_uppercase(), scene.theme.heading);
        draw_head(area, buffer, &heading, &self.summary(scene));
        let work = wrap_to(&self.work_text(), usize::from(area.width.saturating_sub(2)), 2);
        let (gauge, air) = (u16::from(self.running.is_some()), u16::from(!scene.compact));
        let rows = [1, work.len() as u16, gauge, air].map(Length);
        let [_, work_area, gauge_area, _, body] =
            Layout::vertical(rows.into_iter().chain([Fill(1)])).areas(area);
        let work = Text::styled(work.join("\n"), scene.theme.soft);
        work.render(work_area.inner(SIDES), buffer);
        if let Some(running) = &self.running {
            bars::draw_progress(gauge_area.inner(SIDES), buffer, scene, running);
        }
        let has_bars = self.has_bars();
        let is_wide = area.width >= WIDE && has_bars;
        let side = if is_wide { area.width * 2 / 5 } else { 0 };
        let [body, beside] = Layout::horizontal([Fill(1), Length(side)]).areas(body);
        if is_wide {
            self.draw_bars(beside, buffer, scene);
        }
        let detail = self.chosen().map(|it| self.detail(it, scene, body.width));
        let list = self.line_count() + 1;
        let bars = if has_bars && !is_wide { self.bar_rows() } else { 0 };
        let details = detail.as_ref().map_or(0, Detail::height);
        let room = body.height.saturating_sub(LEAST[usize::from(scene.compact)]);
        let (bars, details) = match self.panel {
            _ if list + bars + details <= body.height => (bars, details),
            // The table has at least half of the rows, if it needs them.
            Panel::Bars if bars > 0 => {
                (bars.min(room).min((body.height / 2).max(body.height.saturating_sub(list))), 0)
            }
            _ => (0, details.min(room)),
        };
        let list = list.min(body.height - bars - details);
        let [list, bars, _, under] =
            Layout::vertical([Length(list), Length(bars), Fill(1), Length(details)]).areas(body);
        self.draw_rows(list, buffer, scene);
        if bars.height > 0 {
            self.draw_bars(bars, buffer, scene);
        }
        if let Some(detail) = detail.filter(|_| details > 1) {
            detail.draw(under, buffer);
        }
    }

    fn table(&self) -> Option<&dyn Table> {
        Some(self)
    }

    fn table_mut(&mut self) -> Option<&mut dyn Table> {
        Some(self)
    }

    fn run(&mut self, action: Action, _: &Scene) -> Option<Effect> {
        match action {
            Action::Open => return Some(self.open()),
            Action::LabRun => return Some(self.start()),
            Action::LabMend => return self.chosen().map(|it| self.mend(it)),
            Action::LabWork => {
                let form = Form::lab_work(&self.setup.work, &self.setup.seeds);
                return Some(Effect::Open(Dialog::Form(form)));
            }
            Action::LabPanel => self.turn(),
            Action::LabDatabase => {
                let names = Database::NAMES.iter().filter_map(|it| it.parse().ok());
                let mut names = names.cycle();
                names.find(|it| *it == self.setup.database);
                self.setup.database = names.next().unwrap_or(self.setup.database);
                self.controls.detail = false;
            }
            Action::MarkAll => self.mark_all(),
            Action::Mark => {
                let name = self.chosen()?.name;
                if !self.marks.remove(name) {
                    self.marks.insert(name);
                }
                self.move_cursor(Step::By(1));
            }
            _ => return None,
        }
        Some(Effect::Done)
    }

    fn why_not(&self, action: Action, scene: &Scene) -> Option<String> {
        match action {
            Action::LabRun | Action::LabWork | Action::LabDatabase if self.running.is_some() => {
                Some(text!("lab-view-running"))
            }
            Action::LabRun if scene.newest.read_only => {
                Some(text!("conventions-read-only-mode-commands"))
            }
            _ => None,
        }
    }
}
