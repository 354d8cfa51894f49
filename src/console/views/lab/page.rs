//! The page of a design: its texts, and an interleaving that broke a promise, with a lane per request.

use seckill_lab::{self as lab, Design, Line as Happened, Promise, Timeline};

use super::{LabState, draw_head, draw_scrollbar};
use crate::views::{prelude::*, table::GAP};

/// Cells of a time: tens of seconds, in microseconds.
const TIME: usize = 10;
/// Cells of the sign before a step, or of the axis.
const SIGN: usize = 2;

impl LabState {
    /// Draws as many lines of the page as fit, from the one that it is scrolled to.
    pub(super) fn draw_page(
        &mut self,
        design: &'static Design,
        area: Rect,
        buffer: &mut Buffer,
        scene: &Scene,
    ) {
        let theme = scene.theme;
        let body = below(area, scene.table_top());
        let text_area = body.inner(SIDES);
        let cells = usize::from(text_area.width);
        let (mut summary, mut lines) =
            (String::new(), self.detail(design, scene, area.width).into_lines());
        if let Some((result, timeline, count)) = self.timeline() {
            if count > 1 {
                summary = text!("lab-view-promise-of", number = self.opened.which + 1, count);
            }
            let (promise, seed) = (timeline.promise.title(), timeline.seed.to_string());
            let title = text!("lab-timeline", promise, seed) + "  " + &result.label();
            lines.push(Line::default());
            lines.extend(wrap(&title, cells).into_iter().map(|it| Line::styled(it, theme.broken)));
            lines.extend(steps(timeline, cells, theme));
        }
        let heading = Line::styled(design.name, theme.heading);
        draw_head(area, buffer, &heading, &Line::styled(summary, theme.soft));
        let (total, visible) = (lines.len(), usize::from(body.height));
        let top = self.opened.top.min(total.saturating_sub(visible));
        Paragraph::new(lines).scroll((top as u16, 0)).render(text_area, buffer);
        draw_scrollbar(body, buffer, theme, top, total);
        self.opened.top = top;
        // None of them is chosen with the mouse.
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

/// A column of times, and one per lane: its steps on an axis, each in full.
fn steps(timeline: &Timeline, cells: usize, theme: Theme) -> Vec<Line<'static>> {
    let (titles, fault) = (timeline.titles(), fault(timeline));
    let gap = " ".repeat(GAP.into());
    let cells = (cells.saturating_sub(TIME) / titles.len().max(1)).saturating_sub(gap.len());
    let text_cells = cells.saturating_sub(SIGN);
    let titles: Vec<_> = titles.iter().map(|it| wrap(it, cells)).collect();
    let title_rows = titles.iter().map(Vec::len).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in 0..title_rows {
        let time = if row == 0 { Label("lab-head-time").read() } else { "" };
        let mut line = right(time, TIME);
        for title in &titles {
            line += &gap;
            line += &left(title.get(row).map_or("", String::as_str), cells);
        }
        lines.push(Line::styled(line, theme.heading));
    }
    for (at, step) in timeline.lines.iter().enumerate() {
        let (sign, sign_style, style) = match step.step.action {
            _ if fault == Some(at) => (glyphs::CROSS, theme.bad, theme.bad),
            lab::Action::Killed | lab::Action::Stall | lab::Action::Incident => {
                (glyphs::UP, theme.warn, theme.warn)
            }
            _ => (glyphs::UP, theme.accent, Style::new()),
        };
        for (row, text) in wrap(&step.text(), text_cells).iter().enumerate() {
            let time = if row == 0 { micros(step.ended_us) } else { String::new() };
            let mut line = Line::from(Span::styled(right(&time, TIME), theme.soft));
            for column in 0..titles.len() {
                let is_here = column == step.column;
                let (sign, sign_style) = if is_here && row == 0 {
                    (sign, sign_style)
                } else {
                    (glyphs::AXIS, theme.soft)
                };
                line.push_span(Span::styled(format!("{gap}{sign} "), sign_style));
                let text = if is_here { text.as_str() } else { "" };
                line.push_span(Span::styled(left(text, text_cells), style));
            }
            lines.push(line);
        }
    }
    lines
}

fn micros(micros: f64) -> String {
    figures::thousands(micros.round() as i64)
}
