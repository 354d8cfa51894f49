//! Histograms of pending entries by age and by deliveries: whether stuck entries are new or old, and how often they
//! were tried.

use seckill_engine::telemetry::census::Census;

use crate::views::prelude::*;

/// Its rows: one per age class.
pub(super) const ROWS: u16 = 5;
/// Cells of a count.
const COUNT: usize = 9;
/// The maximum width of a bar.
const MOST_BAR: usize = 40;
/// Counted every two seconds; older counts are outdated.
const STALE_MS: u64 = 5_000;

/// Both histograms side by side.
pub(super) fn lines(scene: &Scene, cells: u16) -> Vec<Line<'static>> {
    let census = scene.shown.census.as_ref();
    let half = cells / 2 + 1;
    let [.., oldest] = Census::AGES_MS;
    let aged = |sign: char, border| text!("recovery-age", sign, border = figures::span(border));
    let ages =
        [&Census::AGES_MS.map(|border| aged('<', border))[..], &[aged('>', oldest)]].concat();
    let left = column(scene, half, &ages, census.map(|it| &it.ages[..]));
    let tries = [
        Label("recovery-delivered-once"),
        Label("recovery-delivered-2-4-times"),
        Label("recovery-delivered-5-times"),
    ]
    .map(Label::to_owned);
    // Its margin is the gap between the two.
    let mut right = column(scene, cells - half, &tries, census.map(|it| &it.tries[..]));
    right.resize(left.len() - 1, Line::default());
    right.push(census.map(|census| notes(scene, census)).unwrap_or_default());
    left.into_iter()
        .zip(right)
        .map(|(left, right)| left.into_iter().chain(right).collect())
        .collect()
}

/// How much of the list was counted, and when.
fn notes(scene: &Scene, census: &Census) -> Line<'static> {
    let mut notes = Vec::new();
    if !census.whole {
        notes.push(text!("recovery-of-the-oldest", count = census.counted));
    }
    let age = scene.seen().since(census.taken);
    // A list beyond one page is read more often than it is counted.
    if !scene.is_blind() && (age > STALE_MS || !scene.shown.pending.is_whole()) {
        notes.push(text::old(age));
    }
    let is_partial = age > STALE_MS || !census.whole;
    let style = if is_partial { scene.theme.warn } else { scene.theme.soft };
    Span::styled(notes.join("  "), style).into()
}

/// Names, right-aligned counts, and bars of one scale, in lines of exactly `cells`. Entries of the last class are a
/// problem.
fn column(
    scene: &Scene,
    cells: u16,
    names: &[String],
    counts: Option<&[u64]>,
) -> Vec<Line<'static>> {
    let theme = scene.theme;
    let widest = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let room = usize::from(cells).saturating_sub(widest + COUNT + 5).min(MOST_BAR);
    let counted = counts.into_iter().flatten().sum::<u64>().max(1);
    let lines = names.iter().enumerate().map(|(place, name)| {
        let count = counts.map(|counts| counts[place]);
        let style = match count {
            Some(1..) if place + 1 == names.len() => theme.warn,
            Some(1..) => theme.accent,
            _ => theme.soft,
        };
        let text = count.map_or_else(|| text::UNKNOWN.to_owned(), |it| figures::within(it, COUNT));
        let share = count.unwrap_or(0) as f64 / counted as f64;
        let mut line = Line::from(Span::styled(left(name, widest), theme.soft));
        line.push_span(Span::styled(right(&text, COUNT + 1), style));
        line.push_span(" ");
        line.extend(bar(theme, share, room as u16, style, None));
        line.push_span(" ".repeat(usize::from(cells).saturating_sub(line.width())));
        line
    });
    lines.collect()
}
