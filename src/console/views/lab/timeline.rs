//! One interleaving that broke a promise: a lane per request, step by step.

use ratatui::widgets::{self, HighlightSpacing, TableState};
use seckill_lab::{Line as Happened, Timeline};

use super::{LabState, draw_head, draw_scrollbar};
use crate::views::prelude::*;

/// Cells of a time: tens of seconds, in microseconds.
const TIME: u16 = 10;
/// Blanks between columns.
const GAP: u16 = 2;
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
            Span::styled(result.label(), theme.heading),
            Span::raw("  "),
            Span::styled(text!("lab-timeline", promise, seed), theme.broken),
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
        // In a high window, a step has two lines.
        let lines = if lanes.height > 2 * total as u16 { 2 } else { 1 };
        let lanes = Rect { height: lanes.height.min(lines * total as u16 + 1), ..lanes };
        let visible = usize::from(lanes.height.saturating_sub(1) / lines);
        let offset = (step + 1).saturating_sub(visible);
        let mut selected = TableState::new().with_offset(offset).with_selected(Some(step));
        let table_area = Rect { width: lanes.width.saturating_sub(1), ..lanes };
        let table = steps(timeline, &titles, (lanes.width, lines), theme);
        StatefulWidget::render(table, table_area, buffer, &mut selected);
        if lines == 1 {
            draw_scrollbar(below(lanes, 1), buffer, theme, selected.offset(), total);
        }
        if let Some(detail) = details.into_iter().nth(step) {
            detail.draw(under, buffer);
        }
        self.controls.top = None;
        (self.controls.visible, self.controls.total) = (visible, total);
    }
}

/// A column of times, and one per lane.
fn steps(
    timeline: &Timeline,
    titles: &[String],
    (room, rows): (u16, u16),
    theme: Theme,
) -> widgets::Table<'static> {
    let lanes = timeline.lanes.len().max(1) as u16;
    let cells = room.saturating_sub(3 + TIME + GAP * lanes) / lanes;
    let heads = titles.iter().map(|it| Text::styled(fit(it, cells.into()), theme.heading));
    let time = Text::styled(Label("lab-head-time").read(), theme.heading).right_aligned();
    let head = widgets::Row::new(std::iter::once(time).chain(heads));
    let row = |line: &Happened| {
        let lane = |column: u16| {
            if usize::from(column) == line.column {
                Text::raw(step_text(line, cells.into(), rows.into()))
            } else {
                let axis = vec![glyphs::AXIS; rows.into()];
                Text::styled(axis.join("\n"), theme.soft)
            }
        };
        let time = Text::styled(micros(line.ended_us), theme.soft).right_aligned();
        widgets::Row::new(std::iter::once(time).chain((0..lanes).map(lane))).height(rows)
    };
    let steps: Vec<_> = timeline.lines.iter().map(row).collect();
    let widths = std::iter::once(Length(TIME)).chain((0..lanes).map(|_| Length(cells)));
    widgets::Table::new(steps, widths)
        .header(head)
        .column_spacing(GAP)
        .highlight_symbol(" ")
        .highlight_spacing(HighlightSpacing::Always)
        .row_highlight_style(Style::reset().patch(theme.selected))
}

fn micros(micros: f64) -> String {
    figures::thousands(micros.round() as i64)
}

/// A step in this many cells and rows: what came back is cut last.
fn step_text(line: &Happened, cells: usize, rows: usize) -> String {
    let saw = line.saw_text();
    if rows > 1 {
        return wrap_to(&(line.what_text() + &saw), cells, rows).join("\n");
    }
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
