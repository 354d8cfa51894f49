//! The frame around every view: header, tabs, story, the line that answers, keys.

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use super::{COMPLETE, View, draw_body, is_stale, presenter};
use crate::{
    console::{
        app::App,
        dialogs::{Dialog, draw_input},
        director::Standing,
        keymap::{self, Action},
        status::Tone,
        text::{self, figures, lang::Word},
        theme::Theme,
        widgets::{Pen, fit, right, width, wrap},
    },
    model::{Millis, Phase, ledger::Balance},
    telemetry::snapshot::{Health, SaleLine},
};

/// From this width on, servers and books are told in full.
const WIDE: u16 = 112;
/// Cells of a title that the time gives way to.
const LEAST_TITLE: usize = 14;

/// Draws the frame and the view in it; says where the cursor stands.
pub(super) fn draw(app: &mut App, pen: &mut Pen<'_>) -> Option<(u16, u16)> {
    let (width, height) = (pen.width(), pen.height());
    if app.presenter.on {
        presenter::draw(app, pen);
        return None;
    }
    let compact = width < COMPLETE.0 || height < COMPLETE.1;
    header(app, &mut pen.part(0, 0, width, 1));
    app.tabs = tabs(app, &mut pen.part(0, 1, width, 1));
    let mut top = 2;
    if !compact {
        pen.rule(2, app.theme.glyphs.rule, app.theme.soft());
        top = 3;
    }
    keys(app, &mut pen.part(0, height - 1, width, 1));
    let answer = answer_lines(app, width);
    let answer_rows = answer.len() as u16;
    let mut bottom = height - 1 - answer_rows;
    for (row, line) in answer.iter().enumerate() {
        pen.line(1, bottom + row as u16, line);
    }
    let cursor = if app.filtering { filter_input(app, pen, bottom) } else { None };
    let told = story_lines(app, width);
    bottom -= told.len() as u16;
    for (row, line) in told.iter().enumerate() {
        pen.line(1, bottom + row as u16, line);
        if row == 0 {
            let key = story_key(app);
            pen.part(0, bottom, width.saturating_sub(1), 1).line_right(0, &key);
        }
    }
    draw_body(app, &mut pen.part(0, top, width, bottom.saturating_sub(top)), compact);
    cursor
}

/// The sale that the header speaks of: the chosen one, else one that sells, else the newest open.
fn headline(app: &App) -> Option<&SaleLine> {
    let sales = &app.shown.sales;
    let first = |phase: Phase| sales.iter().find(|sale| sale.phase == phase);
    app.sales
        .chosen_line(&app.shown)
        .or_else(|| first(Phase::Running))
        .or_else(|| first(Phase::Paused))
        .or_else(|| first(Phase::Planned))
        .or_else(|| first(Phase::SoldOut))
}

fn header(app: &App, pen: &mut Pen<'_>) {
    let theme = app.theme;
    let wide = pen.width() >= WIDE;
    let mut states = Vec::new();
    books(theme, &app.shown.books, wide, &mut states);
    // Servers are told as they are, also while the picture is frozen.
    health(theme, &app.newest.redis, text::REDIS, app.now, wide, &mut states);
    health(theme, &app.newest.sql, text::SQL, app.now, wide, &mut states);
    let states = Line::from(states);
    let room = pen.width().saturating_sub(states.width() as u16 + 3);
    let mut left = pen.part(0, 0, room, 1);
    let mut x = left.text(1, 0, text::PROGRAM, theme.key());
    if armed(app, &mut left, x + 1, true) {
        // What is armed matters more than what sells; both have no room.
    } else if let Some(sale) = headline(app) {
        let (word, style) = phase(theme, sale.phase);
        let mut time = time_left(sale, app.seen(), wide).unwrap_or_default();
        x = left.text(x + 1, 0, theme.glyphs.pointer, theme.soft());
        let title = text::sale_name(sale.voucher_id, &sale.title);
        let mut room = usize::from(room.saturating_sub(x + 3)).saturating_sub(width(&word));
        // What is sold matters more than how long.
        if room < width(&time) + 2 + LEAST_TITLE {
            time.clear();
        }
        room = room.saturating_sub(width(&time) + 2);
        let title = fit(&title, room, theme.glyphs.ellipsis);
        x = left.text(x + 1, 0, &title, theme.strong());
        x = left.text(x + 2, 0, &word, style);
        left.text(x + 2, 0, &time, Style::new());
    }
    pen.part(0, 0, pen.width().saturating_sub(1), 1).line_right(0, &states);
}

/// What is armed, in the top line of every view; `false` where nothing is.
pub(super) fn armed(app: &App, pen: &mut Pen<'_>, x: u16, ids: bool) -> bool {
    let theme = app.theme;
    let (badge, launch) = match app.director.standing(app.now) {
        Some(Standing::Counting(launch, left)) => (text::director::armed_in(left), launch),
        Some(Standing::Opening(launch)) => (text::director::OPENS.to_owned(), launch),
        None => return false,
    };
    let x = pen.text(x, 0, &format!(" {badge} "), theme.badge()) + 1;
    let room = usize::from(pen.width().saturating_sub(x));
    let told = text::director::badge(launch, ids);
    pen.text(x, 0, &fit(&told, room, theme.glyphs.ellipsis), theme.strong());
    true
}

/// A phase in the header's capitals, in the colour of its state.
pub(super) fn phase(theme: Theme, phase: Phase) -> (String, Style) {
    let style = match phase {
        Phase::Running => theme.good().add_modifier(ratatui::style::Modifier::BOLD),
        Phase::Paused => theme.warn(),
        Phase::Planned => theme.accent(),
        Phase::SoldOut => theme.strong(),
        Phase::Ended | Phase::Archived => theme.soft(),
    };
    (text::phase(phase).to_uppercase(), style)
}

fn time_left(sale: &SaleLine, now: Millis, wide: bool) -> Option<String> {
    let (at, words) = match sale.phase {
        Phase::Planned => (sale.begin, text::starts_in as fn(&str) -> String),
        Phase::Ended | Phase::Archived => return None,
        _ => (sale.end, text::ends_in as fn(&str) -> String),
    };
    let clock = figures::clock(at?.since(now));
    Some(if wide { words(&clock) } else { clock })
}

/// One server: its name, whether it answers, and how fast or how long ago.
fn health(
    theme: Theme,
    health: &Health,
    fallback: &str,
    now: Millis,
    wide: bool,
    out: &mut Vec<Span<'static>>,
) {
    let name = health.name.split_whitespace().next().unwrap_or(fallback);
    out.push(Span::raw(format!("  {name} ")));
    let age = health.last_ok.map(|at| now.since(at));
    let (glyph, style, told) = if !health.up {
        let told = if wide { text::away(age) } else { text::age(age) };
        (theme.glyphs.away, theme.bad(), told)
    } else if is_stale(health, now) {
        let old = age.filter(|_| wide).map(text::old);
        (theme.glyphs.up, theme.warn(), old.unwrap_or_else(|| text::age(age)))
    } else {
        let told = if wide { figures::latency(health.latency_us) } else { String::new() };
        out.push(Span::styled(theme.glyphs.up, theme.good()));
        if wide {
            out.push(Span::styled(format!(" {}", right(&told, 6, "")), theme.soft()));
        }
        return;
    };
    out.push(Span::styled(format!("{glyph} {told}"), style));
}

fn books(theme: Theme, balance: &Balance, wide: bool, out: &mut Vec<Span<'static>>) {
    let glyphs = theme.glyphs;
    let (glyph, style, full) = match balance {
        Balance::Balanced { .. } => (glyphs.check, theme.good(), text::BALANCED.to_owned()),
        Balance::InFlight { orders } => (glyphs.moving, theme.accent(), text::in_flight(*orders)),
        Balance::Off { .. } => (glyphs.cross, theme.bad(), text::BOOKS_OFF.to_owned()),
        Balance::Unknown => ("?", theme.warn(), text::BOOKS_UNKNOWN.to_owned()),
    };
    if wide {
        out.push(Span::styled(format!("{glyph} {full}"), style));
    } else {
        out.push(Span::raw(format!("{} ", text::BOOKS)));
        out.push(Span::styled(glyph.to_owned(), style));
    }
}

/// Blanks between tabs, cells of a count, whether all have theirs, and cells of a name: from the widest to what any
/// window takes. With no cells for names only those are named that must be.
const TAB_FITS: [(u16, usize, bool, usize); 10] = [
    (3, usize::MAX, true, usize::MAX),
    (2, 5, true, usize::MAX),
    (1, 4, true, usize::MAX),
    (1, 4, false, usize::MAX),
    (1, 4, false, 8),
    (1, 4, false, 7),
    (1, 4, false, 6),
    (1, 4, false, 5),
    (2, 4, false, 0),
    (1, 4, false, 0),
];

/// Names of the views with their counts, and badges at the right.
fn tabs(app: &App, pen: &mut Pen<'_>) -> Vec<(std::ops::Range<u16>, View)> {
    let mut places = Vec::new();
    let theme = app.theme;
    let stream = app.shown.stream.as_ref();
    let tabs = View::ALL.map(|view| {
        let (name, count) = match view {
            View::Overview => (text::tabs::OVERVIEW, None),
            View::Sales => (text::tabs::SALES, Some(app.shown.sales.len() as u64)),
            View::Pending => (text::tabs::PENDING, stream.map(|stream| stream.pending)),
            View::Letters => (text::tabs::LETTERS, stream.map(|stream| stream.dead)),
            View::Stream => (text::stream::TAB, None),
            View::Orders => (text::orders::TAB, None),
            View::Locks => (text::tabs::LOCKS, Some(app.shown.locks.total)),
            View::Jobs => (text::tabs::JOBS, None),
            View::Activity => (text::activity::TAB, None),
        };
        (view, keymap::key_of(view.action()), name, count.filter(|count| *count > 0))
    });
    let badges = badges(app);
    // One blank before the first tab, and one before a badge.
    let taken = if badges.width() == 0 { 1 } else { badges.width() + 2 };
    let room = usize::from(pen.width()).saturating_sub(taken);
    // What is stuck needs a person; how many sales and locks there are does not.
    let told = |view: View, all: bool| all || matches!(view, View::Pending | View::Letters);
    // Where the person is stays whole, and what has a count to tell is named in any window.
    let named = |view: View, name: &str, counts: bool, most: usize| match most {
        _ if view == app.view => name.to_owned(),
        0 if counts => name.to_owned(),
        most => fit(name, most, ""),
    };
    let cells = |(gap, digits, all, most): (u16, usize, bool, usize)| {
        let tab = |(view, key, name, count): &(View, String, Word, Option<u64>)| {
            let count = count.filter(|_| told(*view, all));
            let name = width(&named(*view, name, count.is_some(), most));
            let count = count.map_or(0, |count| figures::within(count, digits).len() + 1);
            width(key) + name + usize::from(name > 0) + count
        };
        tabs.iter().map(tab).sum::<usize>() + usize::from(gap) * (tabs.len() - 1)
    };
    let [.., narrowest] = TAB_FITS;
    let (gap, digits, all, most) =
        TAB_FITS.into_iter().find(|fit| cells(*fit) <= room).unwrap_or(narrowest);
    let mut x = 1;
    for (view, key, name, count) in tabs {
        let current = app.view == view;
        let style = if current { theme.strong().patch(theme.underlined()) } else { Style::new() };
        let from = x;
        x = pen.text(x, 0, &key, theme.key());
        let count = count.filter(|_| told(view, all));
        let name = named(view, &name, count.is_some(), most);
        if !name.is_empty() {
            x = pen.text(x + 1, 0, &name, style);
        }
        if let Some(count) = count {
            let loud = match view {
                View::Pending => has_dead_holder(app),
                view => view == View::Letters,
            };
            let style = if loud { theme.warn() } else { theme.soft() };
            x = pen.text(x + 1, 0, &figures::within(count, digits), style);
        }
        places.push((from..x, view));
        x += gap;
    }
    pen.part(0, 0, pen.width().saturating_sub(1), 1).line_right(0, &badges);
    places
}

/// What must not be forgotten about the picture.
pub(super) fn badges(app: &App) -> Line<'static> {
    let theme = app.theme;
    let mut badges = Vec::new();
    if app.shown.read_only {
        badges.push(Span::styled(format!(" {} ", text::READ_ONLY), theme.badge()));
    }
    if app.frozen {
        let age = figures::span(app.now.since(app.shown.taken));
        badges.push(Span::raw(" "));
        badges.push(Span::styled(format!(" {} {age} ", text::FROZEN), theme.badge()));
    }
    Line::from(badges)
}

fn has_dead_holder(app: &App) -> bool {
    let consumers = app.shown.stream.iter().flat_map(|stream| &stream.consumers);
    consumers.into_iter().any(|consumer| !consumer.alive && consumer.pending > 0)
}

/// Keys that help here, as many as fit.
pub(super) fn keys(app: &App, pen: &mut Pen<'_>) {
    let mut x = 1;
    let no_yes = matches!(&app.dialog, Some(Dialog::Confirm(asked)) if !asked.takes_yes());
    for binding in keymap::footer(app.context()) {
        if no_yes && binding.action == Action::Accept {
            continue;
        }
        let key = keymap::Key::label(binding.keys[0]);
        let word = text::action(binding.action).0;
        let room = pen.width().saturating_sub(x + 1);
        if width(&key) + width(word) + 1 > usize::from(room) {
            break;
        }
        x = pen.text(x, 0, &key, app.theme.key());
        x = pen.text(x + 1, 0, word, app.theme.soft()) + 3;
    }
}

/// The line that answers, of one row at least, so that nothing jumps when it speaks.
pub(super) fn answer_lines(app: &App, cells: u16) -> Vec<Line<'static>> {
    let theme = app.theme;
    let Some((tone, said, more)) = app.status.shown().filter(|_| !app.filtering) else {
        return vec![Line::default()];
    };
    let (glyph, style) = match tone {
        Tone::Note => ("", Style::new()),
        Tone::Good => (theme.glyphs.check, theme.good()),
        Tone::Mixed => ("!", theme.warn()),
        Tone::Failure => (theme.glyphs.cross, theme.bad()),
    };
    let mut said = said.to_owned();
    if tone == Tone::Failure {
        said = text::failure(&said, more);
    }
    let indent = if glyph.is_empty() { 0 } else { width(glyph) + 1 };
    let mut lines = wrap(&said, usize::from(cells).saturating_sub(indent + 2));
    lines.truncate(3);
    let rows = lines.into_iter().enumerate().map(|(row, line)| {
        let head = if row == 0 { glyph } else { "" };
        let head = crate::console::widgets::left(head, indent, "");
        Line::from(vec![Span::styled(head, style), Span::styled(line, style)])
    });
    rows.collect()
}

fn filter_input(app: &App, pen: &mut Pen<'_>, y: u16) -> Option<(u16, u16)> {
    let input = match app.view {
        View::Overview => return None,
        View::Sales => &app.sales.filter,
        View::Pending => &app.pending.filter,
        View::Letters => &app.letters.filter,
        View::Stream => &app.stream.filter,
        View::Orders => &app.orders.input,
        View::Locks => &app.locks.filter,
        View::Jobs => &app.jobs.filter,
        View::Activity => &app.log.filter,
    };
    let x = pen.text(1, y, "/", app.theme.key());
    let room = pen.width().saturating_sub(x + 1);
    draw_input(&mut pen.part(x, y, room, 1), app.theme, input, false)
}

/// The story in one or two lines, its title first.
pub(super) fn story_lines(app: &App, cells: u16) -> Vec<Line<'static>> {
    let (story, theme) = (&app.story, app.theme);
    if story.is_blank() {
        return Vec::new();
    }
    let reserved = story_key(app).width() + 6;
    let head = if story.done { theme.glyphs.check } else { theme.glyphs.pointer };
    let whole = format!("{head} {}  {}", story.title, story.text);
    let title = fit(&format!("{head} {}", story.title), usize::MAX, "");
    // The key stands beside the first line only; the second has the whole width.
    let mut lines = wrap(&whole, usize::from(cells).saturating_sub(reserved));
    if lines.len() > 1 {
        // Lines of wide characters break where there was no blank.
        let flat = fit(&whole.split_whitespace().collect::<Vec<_>>().join(" "), usize::MAX, "");
        let rest = lines.split_off(1).join(" ");
        let rest = flat.get(lines.iter().map(String::len).sum()..).map_or(rest, str::to_owned);
        let rest = rest.trim_start().to_owned();
        lines.push(fit(&rest, usize::from(cells).saturating_sub(4), theme.glyphs.ellipsis));
    }
    let styled = lines.into_iter().enumerate().map(|(row, line)| match line.strip_prefix(&title) {
        Some(rest) if row == 0 => Line::from(vec![
            Span::styled(title.clone(), theme.key()),
            Span::raw(format!(" {rest}")),
        ]),
        _ if row == 0 => Line::styled(line, theme.key()),
        _ => Line::raw(format!("  {line}")),
    });
    styled.collect()
}

pub(super) fn story_key(app: &App) -> Line<'static> {
    let Some(key) = app.story.key.as_ref() else { return Line::default() };
    let key = fit(key, 12, app.theme.glyphs.ellipsis);
    Line::from(vec![
        Span::styled(format!("{} ", text::PRESS), app.theme.soft()),
        Span::styled(format!(" {key} "), app.theme.key().patch(app.theme.selected())),
    ])
}
