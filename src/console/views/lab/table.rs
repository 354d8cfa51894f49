//! The designs below their questions, with the verdict on each.
//!
//! Unlike the rows of other tables, these stand below headings, and their order is that of the tutorials.

use ratatui::widgets::{self, TableState};
use seckill_lab::{Design, NotApplicable, Promise, Question, Verdict};
use seckill_model::in_english;
use serde_json::Value as Json;

use super::{Controls, Extent, LabState, Outcome, Sheet, draw_scrollbar, library_table};
use crate::views::{prelude::*, table::GAP};

/// A line of the table.
enum TableLine {
    /// The question of the designs below.
    Question(Question),
    Design(&'static Design),
}

/// A column of figures.
struct Figure {
    title: Label,
    /// The width of the table from which it is shown.
    from: u16,
    /// Its own width.
    cells: u16,
    text: fn(&Outcome<'_>) -> String,
}

impl Figure {
    /// Its widths are those of a [`Column`](crate::views::table::Column): from which it is shown, and its own.
    const fn new(
        title: Label,
        (from, cells): (u16, u16),
        text: fn(&Outcome<'_>) -> String,
    ) -> Self {
        Self { title, from, cells, text }
    }
}

const FIGURES: [Figure; 8] = [
    Figure::new(Label("lab-head-orders"), (104, 6), |it| median(it, |of| of.sold)),
    Figure::new(Label("lab-head-oversold"), (72, 8), |it| median(it, |of| of.oversold)),
    Figure::new(Label("lab-head-two-orders"), (96, 10), |it| {
        median(it, |of| of.users_with_two_orders)
    }),
    Figure::new(Label("lab-head-lost"), (116, 5), |it| median(it, |of| of.lost)),
    Figure::new(Label("tables-requests-per-second"), (0, 10), |it| {
        figures::thousands(it.first.latency.throughput as u64)
    }),
    Figure::new(Label("tables-p50"), (132, 8), |it| millis(it.first.latency.median)),
    Figure::new(Label("tables-p99"), (124, 8), |it| millis(it.first.latency.p99)),
    Figure::new(Label("lab-head-statements"), (140, 7), |it| {
        format!("{:.1}", it.first.sql_per_request)
    }),
];

/// What the designs of a question answer.
fn ask(question: Question) -> Label {
    match question {
        Question::Overselling => Label("lab-ask-overselling"),
        Question::OneOrder => Label("lab-ask-one-order"),
        Question::Locks => Label("lab-ask-locks"),
        Question::HandOver => Label("lab-ask-hand-over"),
    }
}

fn median(outcome: &Outcome<'_>, figure: fn(&Verdict) -> u64) -> String {
    figures::thousands(outcome.median(figure))
}

fn millis(millis: f64) -> String {
    figures::latency((millis * 1e3).round() as u64)
}

impl LabState {
    /// Which promises a design broke, in how many of several seeds, or how many promises if the cells do not hold their
    /// names; or that it kept all.
    pub(super) fn verdict(&self, design: &Design, cells: usize) -> String {
        let Some(outcome) = self.outcome(design) else { return "-".to_owned() };
        let (broken, seeds) = (outcome.broken(), self.setup.seeds.len());
        let count = broken.len();
        if count == 0 && outcome.done() < outcome.runs {
            return text!("lab-view-part", done = outcome.done(), runs = outcome.runs);
        }
        if count == 0 {
            let promises_all = outcome.all.iter().all(|it| it.breaks.is_empty());
            let verdict =
                if promises_all { Label("lab-view-kept") } else { Label("lab-not-caught") };
            return verdict.to_owned();
        }
        let names = broken.into_iter().map(|(promise, count)| match promise.title() {
            promise if seeds > 1 => text!("lab-view-broken", promise, count, seeds),
            promise => promise.to_owned(),
        });
        let names = names.collect::<Vec<_>>().join(&Label("list-items"));
        if count > 1 && width(&names) > cells {
            return text!("lab-view-broken-promises", count);
        }
        names
    }

    fn lines(&self) -> Vec<TableLine> {
        let (mut lines, mut question) = (Vec::new(), None);
        for design in self.designs() {
            if question.replace(design.question) != Some(design.question) {
                lines.push(TableLine::Question(design.question));
            }
            lines.push(TableLine::Design(design));
        }
        lines
    }

    pub(super) fn line_count(&self) -> u16 {
        self.lines().len() as u16
    }

    pub(super) fn summary(&self, scene: &Scene) -> Line<'static> {
        let mut line = Line::default();
        let designs = self.designs();
        if !self.marks.is_empty() {
            let is_hidden = |mark: &&&str| designs.iter().all(|it| it.name != **mark);
            let hidden = self.marks.iter().filter(is_hidden).count();
            let text = text!("console-marked", count = self.marks.len(), hidden);
            line.push_span(Span::styled(text, scene.theme.key));
            line.push_span("   ");
        }
        let filter = self.controls.filter.value();
        let (shown, of) = (designs.len(), seckill_lab::all().len());
        if filter.is_empty() {
            let text = text!("lab-view-designs", count = of);
            line.push_span(Span::styled(text, scene.theme.soft));
        } else {
            let part = text!("console-shown-of", shown, of);
            line.push_span(format!("/{}   {part}", fit(filter, 20)));
        }
        line
    }

    pub(super) fn draw_rows(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let theme = scene.theme;
        let (lines, chosen) = (self.lines(), self.chosen().map(|it| it.name));
        let is_chosen =
            |line: &TableLine| matches!(line, TableLine::Design(it) if Some(it.name) == chosen);
        let cursor = lines.iter().position(is_chosen);
        let visible = usize::from(area.height.saturating_sub(1));
        self.controls.follow(cursor, lines.len(), visible);
        // The question above a design comes into sight with it.
        let above = cursor.and_then(|at| at.checked_sub(1)).filter(|_| visible > 1);
        if let Some(above) = above
            && matches!(lines.get(above), Some(TableLine::Question(_)))
        {
            self.controls.offset = self.controls.offset.min(above);
        }
        self.controls.top = (area.height > 1).then_some(area.y + 1);
        let offset = self.controls.offset;
        let names = seckill_lab::all().iter().map(|it| width(it.name) as u16);
        let names = names.max().unwrap_or(0).min(area.width * 2 / 5);
        let figures: Vec<_> = FIGURES.iter().filter(|it| area.width >= it.from).collect();
        let widths = [Length(1), Length(names), Fill(1)].into_iter();
        let widths: Vec<_> = widths.chain(figures.iter().map(|it| Length(it.cells))).collect();
        let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(3), ..area };
        let places = Layout::horizontal(widths).spacing(GAP).split(inner);
        let heads = [Label("common-empty"), Label("lab-head-design"), Label("lab-head-verdict")];
        let heads = heads.into_iter().map(|it| Text::styled(it.read(), theme.heading));
        let of_figures = figures.iter().map(|it| {
            Text::styled(fit(&it.title, usize::from(it.cells)), theme.heading).right_aligned()
        });
        let head = widgets::Row::new(heads.chain(of_figures));
        let verdict_cells = usize::from(places.get(2).map_or(0, |it| it.width));
        let row = |line: &TableLine| {
            let design = match line {
                TableLine::Question(question) => {
                    let title = format!("{}  ", question.title());
                    let room = usize::from(inner.width).saturating_sub(width(&title));
                    let asked = Span::styled(fit(&ask(*question), room), theme.soft);
                    let line = Line::from(vec![Span::styled(title, theme.key), asked]);
                    let cell = widgets::Cell::new(line).column_span(places.len() as u16);
                    return widgets::Row::new([cell]);
                }
                TableLine::Design(design) => *design,
            };
            let outcome = self.outcome(design);
            let is_marked = self.marks.contains(design.name);
            let mark = if is_marked { glyphs::MARK } else { " " };
            let name = if is_marked { theme.strong } else { Style::new() };
            let verdict = match &outcome {
                _ if self.is_running(design) => {
                    let text = format!("{} {}", glyphs::MOVING, Label("lab-view-runs"));
                    Text::styled(text, theme.accent)
                }
                Some(it) => {
                    let (sign, style) = it.sign(theme);
                    let text = self.verdict(design, verdict_cells.saturating_sub(2));
                    Text::styled(fit(&format!("{sign} {text}"), verdict_cells), style)
                }
                None => Text::styled("-", theme.soft),
            };
            let cells = [
                Text::styled(mark, theme.key),
                Text::styled(fit(design.name, names.into()), name),
                verdict,
            ];
            let figure = |it: &&Figure| {
                let text = outcome.as_ref().map_or_else(String::new, it.text);
                Text::raw(fit(&text, usize::from(it.cells))).right_aligned()
            };
            widgets::Row::new(cells.into_iter().chain(figures.iter().map(figure)))
        };
        let body: Vec<_> = lines.iter().skip(offset).take(visible).map(row).collect();
        let mut selected =
            TableState::new().with_selected(cursor.and_then(|row| row.checked_sub(offset)));
        let table = library_table(theme, head, body, places.iter().map(|place| place.width));
        let table_area = Rect { width: area.width.saturating_sub(1), ..area };
        StatefulWidget::render(table, table_area, buffer, &mut selected);
        if lines.is_empty() {
            let text = text::echo(self.controls.filter.value());
            draw_text(area, buffer, scene, 1, &text!("console-no-row-contains-press", text));
        }
        draw_scrollbar(below(area, 1), buffer, theme, offset, lines.len());
    }

    /// What is known of a design, and what came of it.
    pub(super) fn detail<'a>(
        &self,
        design: &'static Design,
        scene: &'a Scene,
        cells: u16,
    ) -> Detail<'a> {
        let theme = scene.theme;
        let mut detail = Detail::new(scene, cells);
        let seckill_lab::Source { text, section } = design.source;
        let (source, is_page) = (text!("lab-source", text, section), self.controls.detail);
        if is_page {
            // Its heading is the name.
            detail.most = usize::MAX;
            detail.text(Label("lab-field-question"), ask(design.question).read());
            detail.text(Label("lab-field-source"), source);
        } else {
            detail.has_page = true;
            let source = Span::styled(format!("   {source}"), theme.soft);
            let name = vec![Span::styled(design.name, theme.strong), source];
            detail.line(Label("lab-field-design"), name);
        }
        let verdict = Label("lab-field-verdict");
        let Some(outcome) = self.outcome(design) else {
            let (name, database) = (design.name, self.setup.database);
            let text = if design.not_on.contains(&database) {
                NotApplicable { name, database }.text()
            } else if self.is_running(design) {
                Label("lab-view-runs").to_owned()
            } else {
                Label("lab-view-not-run").to_owned()
            };
            detail.field(verdict, text, theme.soft);
            if is_page {
                explain(&mut detail, design, theme);
            }
            return detail;
        };
        let (broken, comma) = (outcome.broken(), &Label("list-items"));
        let mut judge = |sign, text: String, style| {
            detail.field(verdict, format!("{sign} {text}"), style);
        };
        // What is broken comes first: a low window cuts the rest.
        for promise in outcome.all.iter().flat_map(|it| &it.unexpected) {
            judge(glyphs::CROSS, text!("lab-unexpected", promise = promise.title()), theme.bad);
        }
        for (promise, count) in &broken {
            let (name, seeds) = (promise.title(), self.setup.seeds.len());
            let text = text!("lab-view-breaks", promise = name, count, seeds);
            let incidents = outcome.incidents(*promise).join(comma);
            let is_alone = outcome.all.len() == 1;
            let text = if is_alone { text } else { text!("lab-view-breaks-in", text, incidents) };
            judge(glyphs::CROSS, text, theme.broken);
        }
        let not_broken =
            Promise::all().filter(|it| design.question.asks_for(*it) && !broken.contains_key(it));
        let (kept, not_caught): (Vec<_>, Vec<_>) =
            not_broken.partition(|it| outcome.all.iter().all(|of| !of.breaks.contains(it)));
        let titles = |promises: Vec<Promise>| {
            promises.iter().map(|it| it.title().read()).collect::<Vec<_>>().join(comma)
        };
        let (promises, done, runs) = (titles(kept), outcome.done(), outcome.runs);
        if done < runs && !promises.is_empty() {
            let text = text!("lab-view-so-far", done, runs, promises);
            judge(glyphs::MOVING, text, theme.accent);
        } else if !promises.is_empty() {
            judge(glyphs::CHECK, text!("lab-view-keeps", promises), theme.good);
        }
        let promises = titles(not_caught);
        if done == runs && !promises.is_empty() {
            judge(glyphs::MOVING, text!("lab-view-not-caught", promises), theme.soft);
        }
        explain(&mut detail, design, theme);
        let result = outcome.first;
        let per_second = result.latency.throughput as u64;
        let [p50, p99] = [result.latency.median, result.latency.p99].map(millis);
        let [sql, redis] =
            [result.sql_per_request, result.redis_per_request].map(|it| format!("{it:.1}"));
        let orders = outcome.median(|it| it.sold);
        let oversold = outcome.median(|it| it.oversold);
        let twice = outcome.median(|it| it.users_with_two_orders);
        let [unsold, lost] = [outcome.median(|it| it.unsold), outcome.median(|it| it.lost)];
        let counts = text!("lab-view-counts", orders, oversold, twice, unsold, lost);
        let speed = text!("lab-view-speed", per_second, p50, p99, sql, redis);
        detail.text(Label("lab-field-counts"), counts);
        detail.text(Label("lab-field-speed"), speed);
        let failed: u64 = result.runs.iter().map(|it| it.verdict.failed).sum();
        if let Some(why) = result.runs.iter().find_map(|it| it.verdict.failure.as_ref()) {
            let text = text!("lab-view-failed", count = failed, why);
            detail.field(Label("lab-field-failed"), text, theme.warn);
        }
        detail
    }

    /// Moves the cursor among the designs; `false` if it is at the edge.
    pub(super) fn move_cursor(&mut self, step: Step) -> bool {
        let (designs, chosen) = (self.designs(), self.chosen().map(|it| it.name));
        let Some(now) = designs.iter().position(|it| Some(it.name) == chosen) else { return false };
        let next = match step {
            // A click is on a line of the table.
            Step::Row(line) => {
                let lines = self.lines();
                let is_design = |it: &&TableLine| matches!(it, TableLine::Design(_));
                let above = lines.iter().take(line).filter(is_design).count();
                above.min(designs.len() - 1)
            }
            step => step.from(now, designs.len(), self.controls.visible),
        };
        self.cursor = designs[next].name;
        next != now
    }
}

/// Adds why a design breaks or keeps its promises, and what fixes it.
fn explain(detail: &mut Detail<'_>, design: &Design, theme: Theme) {
    detail.text(Label("lab-field-why"), design.why.read());
    if let Some(mended) = design.mended_by {
        detail.field(Label("lab-field-mended"), mended, theme.key);
    }
}

/// Names of the columns in a file.
const COLUMNS: [&str; 16] = [
    "design",
    "question",
    "database",
    "mended_by",
    "seeds",
    "broken",
    "orders",
    "oversold",
    "users_with_two_orders",
    "unsold",
    "lost",
    "requests_per_second",
    "p50_ms",
    "p99_ms",
    "sql_per_request",
    "redis_per_request",
];

impl Table for LabState {
    fn controls(&self) -> &Controls {
        &self.controls
    }

    fn controls_mut(&mut self) -> &mut Controls {
        &mut self.controls
    }

    fn chosen_name(&self, _: &Snapshot) -> Option<String> {
        self.chosen().map(|it| it.name.to_owned())
    }

    /// Designs are no objects of a deployment.
    fn names(&self, _: &Snapshot) -> Vec<(String, String)> {
        Vec::new()
    }

    fn point_to(&mut self, _: &Snapshot, _: &str) {}

    fn settle_cursor(&mut self, _: &Snapshot) {}

    fn settle(&mut self, _: &Snapshot) -> Settled {
        Settled::default()
    }

    fn is_read(&self, _: &Snapshot) -> bool {
        true
    }

    fn step(&mut self, _: &Snapshot, step: Step, _: bool) -> Turn {
        let has_moved = if self.on_page().is_none() {
            self.move_cursor(step)
        } else {
            let Controls { total, visible, .. } = self.controls;
            let tops = total.saturating_sub(visible) + 1;
            let top = step.from(self.opened.top, tops, visible);
            std::mem::replace(&mut self.opened.top, top) != top
        };
        if has_moved || matches!(step, Step::Row(_)) { Turn::Moved } else { Turn::edge(step) }
    }

    fn sheet(&self, _: &Scene) -> Option<Sheet> {
        let rounded = |number: f64| Json::from((number * 100.0).round() / 100.0);
        let row = |design: &&'static Design| {
            let names = [design.name, design.question.into(), self.setup.database.into()];
            let mut cells: Vec<Json> = names.map(Json::from).into();
            cells.push(design.mended_by.into());
            if let Some(outcome) = self.outcome(design) {
                let broken: Vec<&str> = outcome.broken().into_keys().map(Into::into).collect();
                let it = outcome.first;
                cells.extend([Json::from(it.runs.len()), broken.join(" ").into()]);
                let counts: [fn(&Verdict) -> u64; 5] = [
                    |of| of.sold,
                    |of| of.oversold,
                    |of| of.users_with_two_orders,
                    |of| of.unsold,
                    |of| of.lost,
                ];
                cells.extend(counts.map(|count| outcome.median(count).into()));
                let latency = [it.latency.throughput, it.latency.median, it.latency.p99];
                cells.extend(latency.map(rounded));
                cells.extend([it.sql_per_request, it.redis_per_request].map(rounded));
            }
            cells.resize(COLUMNS.len(), Json::Null);
            cells
        };
        let (designs, chosen) = (self.designs(), self.chosen().map(|it| it.name));
        let total = Some(seckill_lab::all().len() as u64);
        Some(Sheet {
            columns: COLUMNS.map(str::to_owned).into(),
            rows: in_english(|| designs.iter().map(row).collect()),
            extent: Extent { rows: designs.len(), total, more: false },
            cursor: designs.iter().position(|it| Some(it.name) == chosen),
        })
    }

    fn fixed_order(&self, _: &Snapshot) -> Option<String> {
        Some(Label("lab-view-order").to_owned())
    }
}
