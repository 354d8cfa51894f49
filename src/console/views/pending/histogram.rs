//! Histograms of pending entries by age and by deliveries: whether stuck entries are new or old, and how often they
//! were tried.

use ratatui::text::Span;
use seckill_engine::telemetry::census::Census;
use seckill_model::message::{Label, text};

use crate::{
    text::{self, figures},
    views::{Scene, is_stale},
    widgets::{self, Canvas, bar},
};

/// Its rows: one per age class.
pub(super) const ROWS: u16 = 5;
/// Columns needed for both histograms.
const BESIDE: u16 = 72;
/// Cells of a count.
const COUNT: u16 = 9;
/// The maximum width of a bar.
const MOST_BAR: u16 = 40;
/// Counted every two seconds; older counts are outdated.
const STALE_MS: u64 = 5_000;

/// One class: name, count, and whether any entry in it is a problem.
struct Class {
    name: String,
    count: Option<u64>,
    bad: bool,
}

pub(super) fn draw(canvas: &mut Canvas<'_>, scene: &Scene<'_>) {
    let census = scene.snapshot.census.as_ref();
    let w = canvas.width();
    let both = w >= BESIDE;
    let half = if both { w / 2 } else { w };
    let counted = census.map_or(0, |census| census.counted);
    column(&mut canvas.part(0, 0, half, ROWS), scene, &ages(census), counted);
    if !both {
        return;
    }
    let mut right = canvas.part(half, 0, w - half, ROWS);
    column(&mut right, scene, &tries(census), counted);
    let Some(census) = census else { return };
    let mut notes = Vec::new();
    if !census.whole {
        notes.push(text!("recovery-of-the-oldest", count = census.counted));
    }
    let age = scene.now.since(census.taken);
    let fresh = !is_stale(&scene.snapshot.redis, scene.now);
    // A list beyond one page is read more often than it is counted.
    if fresh && (age > STALE_MS || !scene.snapshot.pending.is_whole()) {
        notes.push(text::old(age));
    }
    let theme = scene.theme;
    let style = if age > STALE_MS || !census.whole { theme.warn } else { theme.soft };
    right.text(1, ROWS - 1, &scene.fit(&notes.join("  "), w - half - 2), style);
}

fn ages(census: Option<&Census>) -> Vec<Class> {
    let [.., oldest] = Census::AGES_MS;
    let names = Census::AGES_MS.map(|border| aged('<', border)).into_iter();
    let counts = census.map_or([None; 5], |census| census.ages.map(Some));
    names
        .chain([aged('>', oldest)])
        .zip(counts)
        .zip([false, false, false, false, true])
        .map(|((name, count), bad)| Class { name, count, bad })
        .collect()
}

/// An age class, with its border in the unit of its configuration.
fn aged(sign: char, border: u64) -> String {
    let border = match border {
        60_000.. => text!("recovery-min", minutes = border / 60_000),
        _ => figures::span(border),
    };
    text!("recovery-age", sign, border)
}

fn tries(census: Option<&Census>) -> Vec<Class> {
    let counts = census.map_or([None; 3], |census| census.tries.map(Some));
    let names = [
        Label("recovery-delivered-once"),
        Label("recovery-delivered-2-4-times"),
        Label("recovery-delivered-5-times"),
    ];
    let names = names.into_iter().zip(counts).zip([false, false, true]);
    names.map(|((name, count), bad)| Class { name: name.to_owned(), count, bad }).collect()
}

/// Names, right-aligned counts, and bars of one scale.
fn column(canvas: &mut Canvas<'_>, scene: &Scene<'_>, classes: &[Class], counted: u64) {
    let theme = scene.theme;
    let names = classes.iter().map(|it| widgets::width(&it.name)).max().unwrap_or(0) as u16;
    let at = names + COUNT + 3;
    let cells = canvas.width().saturating_sub(at + 2).min(MOST_BAR);
    for (row, Class { name, count, bad }) in classes.iter().enumerate() {
        let y = row as u16;
        canvas.text(1, y, name, theme.soft);
        let style = match count {
            Some(1..) if *bad => theme.warn,
            Some(1..) => theme.accent,
            _ => theme.soft,
        };
        let text = match count {
            Some(count) => figures::within(*count, usize::from(COUNT)),
            None => text::UNKNOWN.to_owned(),
        };
        let mut place = canvas.part(0, y, names + COUNT + 2, 1);
        place.line_right(0, &Span::styled(text, style).into());
        let Some(count) = count.filter(|_| counted > 0) else { continue };
        let share = count as f64 / counted as f64;
        canvas.line(at, y, &bar(theme, share, cells, style, None).into());
    }
}
