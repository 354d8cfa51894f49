//! One interleaving that broke a promise: a lane per request, step by step.

use ratatui::widgets::{self, TableState};
use seckill_lab::{self as lab, Line as Happened, Promise, Timeline};

use super::{LabState, draw_head, draw_scrollbar, library_table};
use crate::views::{prelude::*, table::GAP};

/// Cells of a time: tens of seconds, in microseconds.
const TIME: u16 = 10;
/// Cells of the sign before a step, or of the axis.
const SIGN: u16 = 2;
/// Rows of the steps that are kept, with the titles of the lanes.
const LEAST: u16 = 5;

impl LabState {
    pub(super) fn draw_timeline(&mut self, area: Rect, buffer: &mut Buffer, scene: &Scene) {
        let theme = scene.theme;
        let (Some(design), Some((result, timeline, count))) = (self.chosen(), self.timeline())
        else {
            return;
        };
        let (promise, seed) = (timeline.promise.title(), timeline.seed.to_string());
        let heading = Line::from(vec![
            Span::styled(text!("lab-timeline", promise, seed), theme.broken),
            Span::styled(format!("  {}", result.label()), theme.heading),
        ]);
        let number = self.opened.which + 1;
        let summary =
            if count > 1 { text!("lab-view-promise-of", number, count) } else { String::new() };
        draw_head(area, buffer, &heading, &Line::styled(summary, theme.soft));
        let total = timeline.lines.len();
        let step = self.opened.step.min(total.saturating_sub(1));
        let titles = timeline.titles();
        // The steps do not move with the length of a statement.
        let details = timeline.lines.iter().map(|line| {
            let mut detail = Detail::new(scene, area.width);
            describe(&mut detail, line, &titles, theme);
            detail.text(Label("lab-field-why"), design.why.read());
            if let Some(mended) = design.mended_by {
                detail.field(Label("lab-field-mended"), mended, theme.key);
            }
            detail
        });
        let details: Vec<_> = details.collect();
        let rows = details.iter().map(Detail::height).max().unwrap_or(0);
        let body = below(area, scene.table_top());
        let rows = rows.min(body.height.saturating_sub(LEAST));
        let [lanes, under] = Layout::vertical([Fill(1), Length(rows)]).areas(body);
        let lane_count = timeline.lanes.len().max(1) as u16;
        let cells = lanes.width.saturating_sub(3 + TIME + GAP * lane_count) / lane_count;
        let text_cells = usize::from(cells.saturating_sub(SIGN));
        let room = usize::from(lanes.height.saturating_sub(1));
        // Whole statements, if there is room for all.
        let whole = timeline.lines.iter().map(|it| wrap(&it.text(), text_cells));
        let mut texts: Vec<Vec<String>> = whole.collect();
        let is_cut = texts.iter().map(Vec::len).sum::<usize>() > room;
        if is_cut {
            texts = timeline.lines.iter().map(|it| vec![step_text(it, text_cells)]).collect();
        }
        let visible = if is_cut { room } else { total };
        let offset = (step + 1).saturating_sub(visible);
        let mut selected = TableState::new().with_offset(offset).with_selected(Some(step));
        let table_area = Rect { width: lanes.width.saturating_sub(1), ..lanes };
        let table = steps(timeline, &texts, cells, theme);
        StatefulWidget::render(table, table_area, buffer, &mut selected);
        if is_cut {
            draw_scrollbar(below(lanes, 1), buffer, theme, selected.offset(), total);
        }
        if let Some(detail) = details.into_iter().nth(step) {
            detail.draw(under, buffer);
        }
        self.controls.top = None;
        (self.controls.visible, self.controls.total) = (visible, total);
    }
}

/// The step at which a promise was broken, if one did it.
fn fault(timeline: &Timeline) -> Option<usize> {
    let is_fault: fn(&Happened) -> bool = match timeline.promise {
        Promise::NoOverselling => |it| it.piece.is_some(),
        Promise::OneOrder => {
            |it| it.step.action == lab::Action::Write && it.step.what.starts_with("INSERT")
        }
        Promise::NoLoss | Promise::FreedAfterDeath => |it| it.step.action == lab::Action::Killed,
        // A later one is of another request.
        Promise::OwnLock => return timeline.lines.iter().position(|it| it.lock_of.is_some()),
        Promise::SellsOut => return None,
    };
    timeline.lines.iter().rposition(is_fault)
}

/// A column of times, and one per lane: its steps on an axis.
fn steps(
    timeline: &Timeline,
    texts: &[Vec<String>],
    cells: u16,
    theme: Theme,
) -> widgets::Table<'static> {
    let (titles, fault) = (timeline.titles(), fault(timeline));
    let heads = titles.iter().map(|it| Text::styled(fit(it, cells.into()), theme.heading));
    let time = Text::styled(Label("lab-head-time").read(), theme.heading).right_aligned();
    let head = widgets::Row::new(std::iter::once(time).chain(heads));
    let axis = || Span::styled(format!("{} ", glyphs::AXIS), theme.soft);
    let rows = timeline.lines.iter().zip(texts).enumerate().map(|(at, (line, text))| {
        let (sign, sign_style, style) = match line.step.action {
            _ if fault == Some(at) => (glyphs::CROSS, theme.bad, theme.bad),
            lab::Action::Killed | lab::Action::Stall | lab::Action::Incident => {
                (glyphs::UP, theme.warn, theme.warn)
            }
            _ => (glyphs::UP, theme.accent, Style::new()),
        };
        let lane = |column: usize| {
            let lines = text.iter().enumerate().map(|(row, text)| match row {
                _ if column != line.column => Line::from(axis()),
                0 => {
                    let sign = Span::styled(format!("{sign} "), sign_style);
                    Line::from(vec![sign, Span::styled(text.clone(), style)])
                }
                _ => Line::from(vec![axis(), Span::styled(text.clone(), style)]),
            });
            lines.collect::<Text<'_>>()
        };
        let time = Text::styled(micros(line.ended_us), theme.soft).right_aligned();
        let cells = std::iter::once(time).chain((0..titles.len()).map(lane));
        widgets::Row::new(cells).height(text.len() as u16)
    });
    let rows: Vec<_> = rows.collect();
    let widths = std::iter::once(TIME).chain(titles.iter().map(|_| cells));
    library_table(theme, head, rows, widths)
}

fn micros(micros: f64) -> String {
    figures::thousands(micros.round() as i64)
}

/// A step in this many cells: what came back is cut last.
fn step_text(line: &Happened, cells: usize) -> String {
    let saw = line.saw_text();
    let what = fit(&line.what_text(), cells.saturating_sub(width(&saw)));
    fit(&(what + &saw), cells)
}

/// The whole step: what, what came back, who, and when.
fn describe(detail: &mut Detail<'_>, line: &Happened, titles: &[String], theme: Theme) {
    detail.field(Label("lab-field-step"), line.what_text(), theme.strong);
    let saw = line.saw_text();
    let saw = saw.trim_start_matches([' ', '→']);
    detail.text(Label("lab-field-saw"), if saw.is_empty() { "-" } else { saw });
    let lane = titles.get(line.column).map_or("", String::as_str);
    let [begun, ended] = [line.begun_us, line.ended_us].map(micros);
    detail.text(Label("lab-field-who"), text!("lab-view-when", lane, begun, ended));
}
