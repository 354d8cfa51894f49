//! The frame around every view: header, tabs, guide, status line, keys.

use ratatui::{
    layout::Position,
    style::{Modifier, Style},
    text::{Line, Span},
};
use seckill_engine::{
    error::StoreError,
    telemetry::{
        read_error::ReadError,
        snapshot::{Health, SaleLine},
    },
};
use seckill_model::{
    Millis, Phase,
    ledger::Balance,
    message::{Label, text},
};

use super::{COMPLETE, View, draw_body, is_stale, presenter, tabs};
use crate::{
    app::App,
    dialogs::{Dialog, draw_input},
    keymap::{self, Action, Context},
    launch::LaunchSummary,
    presenter::by_title,
    status::Tone,
    text::{self, figures},
    theme::Theme,
    widgets::{Canvas, fit, right, width, wrap},
};

/// From this width on, servers and audit are shown in full.
const WIDE: u16 = 112;
/// Cells of a title that take precedence over the time.
const LEAST_TITLE: usize = 14;

/// The widest figure of orders in flight.
const MOST_IN_FLIGHT: u64 = 99_999;
/// Rows of the guide while it is active.
const STORY: u16 = 2;

/// Draws the frame and the view in it; returns the cursor position.
pub(super) fn draw(app: &mut App, canvas: &mut Canvas<'_>) -> Option<Position> {
    let (width, height) = (canvas.width(), canvas.height());
    if app.presenter.on {
        presenter::draw(app, canvas);
        return None;
    }
    let compact = width < COMPLETE.0 || height < COMPLETE.1;
    header(app, &mut canvas.part(0, 0, width, 1));
    let top = if compact { 2 } else { 3 };
    if !compact {
        canvas.rule(2, app.theme.glyphs.rule, app.theme.soft());
    }
    app.tabs = tabs::draw(app, &mut canvas.part(0, 1, width, top - 1));
    // Badges must not take space from a name.
    let badges = badges(app);
    let mut keys_room = width;
    if compact {
        canvas.part(0, height - 1, width.saturating_sub(1), 1).line_right(0, &badges);
        keys_room = width.saturating_sub(badges.width() as u16 + 1);
    } else {
        canvas.part(0, 2, width.saturating_sub(1), 1).line_right(0, &badges);
    }
    keys(app, &mut canvas.part(0, height - 1, keys_room, 1));
    let answer = answer_lines(app, width);
    let answer_rows = answer.len() as u16;
    // A table keeps its cursor visible when messages take more rows. The Overview keeps its layout, and messages cover
    // it.
    let kept = if app.view == View::Overview { 1 } else { answer_rows };
    let story_rows = if app.story.is_blank() { 0 } else { STORY };
    let body = (height - 1).saturating_sub(top + kept + story_rows);
    draw_body(app, &mut canvas.part(0, top, width, body), compact);
    let mut bottom = height - 1 - answer_rows;
    canvas.part(0, bottom.saturating_sub(story_rows), width, answer_rows + story_rows).clear();
    for (row, line) in answer.iter().enumerate() {
        canvas.line(1, bottom + row as u16, line);
    }
    // Messages are above the input.
    let cursor = if app.filtering { filter_input(app, canvas, height - 2) } else { None };
    bottom = bottom.saturating_sub(story_rows);
    // A third line is in the row of the messages, which come first.
    let is_covered = app.filtering || app.status.shown().is_some();
    let story_rows = story_rows + u16::from(!is_covered);
    for (row, line) in story_lines(app, width).iter().take(usize::from(story_rows)).enumerate() {
        canvas.line(1, bottom + row as u16, line);
        if row == 0 {
            let key = story_key(app);
            canvas.part(0, bottom, width.saturating_sub(1), 1).line_right(0, &key);
        }
    }
    cursor
}

/// The subject of the header.
enum Headline<'a> {
    Sale(&'a SaleLine),
    /// This many sales have a load test.
    Rushes(usize),
}

/// The sale that a command would affect, so that no dialog ever differs from the header. If there is none yet: the
/// number of sales with a load test, else the sale that [`App::at_sale`] names, else the first one that is not over.
fn headline(app: &App) -> Option<Headline<'_>> {
    let shown = &app.shown;
    if let Some(target) = app.target_sale() {
        return Some(Headline::Sale(target));
    }
    let rushed = shown.rushed().len();
    if rushed > 1 {
        return Some(Headline::Rushes(rushed));
    }
    app.at_sale()
        .or_else(|| shown.foremost().filter(|sale| !sale.phase.is_over()))
        .map(Headline::Sale)
}

fn header(app: &App, canvas: &mut Canvas<'_>) {
    let theme = app.theme;
    let wide = canvas.width() >= WIDE;
    let mut states = Vec::new();
    audit(theme, &super::steady_audit(&app.shown), wide, &mut states);
    // The state of the servers is live, even while the display is paused.
    health(theme, &app.newest.redis, text::REDIS, app.now, wide, &mut states);
    health(theme, &app.newest.sql, text::SQL, app.now, wide, &mut states);
    let states = Line::from(states);
    let room = canvas.width().saturating_sub(states.width() as u16 + 3);
    canvas.part(0, 0, canvas.width().saturating_sub(1), 1).line_right(0, &states);
    let mut left = canvas.part(0, 0, room, 1);
    let x = left.text(1, 0, text::PROGRAM, theme.key());
    // An armed launch takes precedence over the active sale, and a question over both.
    let asked = app.dialog.as_ref().and_then(Dialog::sale).is_some();
    if !asked && armed(app, &mut left, x + 1, true) {
        return;
    }
    let Some(subject) = headline(app) else { return };
    let x = left.text(x + 1, 0, theme.glyphs.pointer, theme.soft()) + 1;
    match subject {
        Headline::Rushes(count) => {
            left.text(x, 0, &text!("overview-rushes", count), theme.strong());
        }
        Headline::Sale(sale) => {
            let width_left = room.saturating_sub(x);
            sale_headline(app, &mut left.part(x, 0, width_left, 1), sale, wide);
        }
    }
}

/// A sale's name, its phase, and the time left in it.
fn sale_headline(app: &App, canvas: &mut Canvas<'_>, sale: &SaleLine, wide: bool) {
    let theme = app.theme;
    let (word, style) = phase(theme, sale.phase);
    let mut time = time_left(sale, app.seen(), wide).unwrap_or_default();
    let title = text::sale_name(sale.voucher_id, &sale.title);
    let mut room = usize::from(canvas.width().saturating_sub(2)).saturating_sub(width(&word));
    // The name matters more than the time.
    if room < width(&time) + 2 + LEAST_TITLE {
        time.clear();
    }
    room = room.saturating_sub(width(&time) + 2);
    let x = canvas.text(0, 0, &fit(&title, room, theme.glyphs.ellipsis), theme.strong());
    let x = canvas.text(x + 2, 0, &word, style);
    canvas.text(x + 2, 0, &time, Style::new());
}

/// The armed launch, in the top line of every view; `false` if there is none.
pub(super) fn armed(app: &App, canvas: &mut Canvas<'_>, x: u16, ids: bool) -> bool {
    let theme = app.theme;
    let (badge, launch) = match app.director.standing(app.now) {
        Some(LaunchSummary::Counting(launch, left)) => {
            (text!("director-armed", left = figures::clock(left)), launch)
        }
        Some(LaunchSummary::Opening(launch)) => (text!("director-opening"), launch),
        None => return false,
    };
    let x = canvas.text(x, 0, &format!(" {badge} "), theme.badge()) + 1;
    let room = usize::from(canvas.width().saturating_sub(x));
    let text = text::launch::badge(launch, ids);
    canvas.text(x, 0, &fit(&text, room, theme.glyphs.ellipsis), theme.strong());
    true
}

/// A phase in capitals, in the colour of its state.
pub(super) fn phase(theme: Theme, phase: Phase) -> (String, Style) {
    (text::phase(phase).to_uppercase(), phase_style(theme, phase))
}

pub(super) fn phase_style(theme: Theme, phase: Phase) -> Style {
    match phase {
        Phase::Running => theme.good().add_modifier(Modifier::BOLD),
        Phase::Paused => theme.warn(),
        Phase::Planned => theme.accent(),
        Phase::SoldOut => theme.strong(),
        Phase::Ended | Phase::Archived => theme.soft(),
    }
}

fn time_left(sale: &SaleLine, now: Millis, wide: bool) -> Option<String> {
    let at = match sale.phase {
        Phase::Planned => sale.begin?,
        Phase::Ended | Phase::Archived => return None,
        _ => sale.end?,
    };
    let clock = figures::clock(at.since(now));
    Some(match sale.phase {
        _ if !wide => clock,
        Phase::Planned => text!("console-starts-in", clock),
        _ => text!("console-ends-in", clock),
    })
}

/// One server: its name, whether it is up, and if there is room its latency or the time since it failed. The width is
/// constant, so that nothing beside it moves; in a narrow window the panel headings show the age.
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
    let (glyph, [style, beside], text) = if !health.up {
        (theme.glyphs.away, [theme.bad(); 2], text::age(age))
    } else if let Some(why) = &health.unwritable {
        let locked = (why.data() == Some(ReadError::Sql(StoreError::Locked)))
            .then(|| text!("console-locked"));
        let text = locked.unwrap_or_else(|| figures::latency(health.latency_us));
        (theme.glyphs.away, [theme.bad(); 2], text)
    } else if is_stale(health, now) {
        ("!", [theme.warn(); 2], text::age(age))
    } else {
        (theme.glyphs.up, [theme.good(), theme.soft()], figures::latency(health.latency_us))
    };
    out.push(Span::styled(glyph, style));
    if wide {
        let room = width(&figures::steady_span(0));
        out.push(Span::styled(format!(" {}", right(&text, room, theme.glyphs.ellipsis)), beside));
    }
}

fn audit(theme: Theme, balance: &Balance, wide: bool, out: &mut Vec<Span<'static>>) {
    let glyphs = theme.glyphs;
    let (glyph, style, full) = match balance {
        Balance::Balanced { .. } => (glyphs.check, theme.good(), text::BALANCED.to_owned()),
        Balance::InFlight { orders } => (glyphs.moving, theme.accent(), text::in_flight(*orders)),
        Balance::Off { .. } => (glyphs.cross, theme.bad(), text!("console-audit-failed")),
        Balance::Unknown => ("?", theme.warn(), text!("console-audit-unknown")),
    };
    if wide {
        // As wide as the widest state, so that nothing beside it moves.
        let states = [text::in_flight(MOST_IN_FLIGHT), text::BALANCED.to_owned()];
        let states = states.iter().map(|it| width(it)).max().unwrap_or(0);
        let states = crate::widgets::left(&full, states, "");
        out.push(Span::styled(format!("{glyph} {states}"), style));
    } else {
        out.push(Span::raw(format!("{} ", text::BOOKS)));
        out.push(Span::styled(glyph.to_owned(), style));
    }
}

/// Important properties of the display, as badges.
pub(super) fn badges(app: &App) -> Line<'static> {
    let theme = app.theme;
    let mut badges = Vec::new();
    if app.shown.read_only {
        badges.push(Span::styled(format!(" {} ", text::READ_ONLY), theme.badge()));
    }
    if app.frozen {
        let age = figures::steady_span(app.now.since(app.shown.taken));
        badges.push(Span::raw(" "));
        badges.push(Span::styled(format!(" {} {age} ", text::FROZEN), theme.badge()));
    }
    Line::from(badges)
}

/// Key hints of the context, as many as fit: packed more closely if there are many.
pub(super) fn keys(app: &App, canvas: &mut Canvas<'_>) {
    let no_yes = matches!(&app.dialog, Some(Dialog::Confirm(asked)) if !asked.takes_yes());
    let hints: Vec<_> = keymap::footer(app.context())
        .filter(|it| !(no_yes && it.action == Action::Accept))
        // An audience has no use for a key that only explains why it has no effect.
        .filter(|it| !app.presenter.on || app.why_not(it.action).is_none())
        .map(|it| (keymap::Key::label(it.keys[0]), it.action.label()))
        .collect();
    let cells: usize = hints.iter().map(|(key, word)| width(key) + width(word) + 1).sum();
    let gaps = hints.len().saturating_sub(1);
    let gap = if cells + gaps * 3 + 2 > usize::from(canvas.width()) { 2 } else { 3 };
    let mut x = 1;
    for (key, word) in hints {
        let room = canvas.width().saturating_sub(x + 1);
        if width(&key) + width(word) + 1 > usize::from(room) {
            continue;
        }
        x = canvas.text(x, 0, &key, app.theme.key());
        x = canvas.text(x + 1, 0, word, app.theme.soft()) + gap;
    }
}

/// The status line, of at least one row, so that nothing moves when a message appears; filter input has a row of its
/// own below.
pub(super) fn answer_lines(app: &App, cells: u16) -> Vec<Line<'static>> {
    let theme = app.theme;
    let typed = app.filtering.then(Line::default);
    let Some((tone, said, more)) = app.status.shown() else { return vec![Line::default()] };
    let (glyph, style) = match tone {
        Tone::Note => ("", Style::new()),
        Tone::Good => (theme.glyphs.check, theme.good()),
        Tone::Mixed => ("!", theme.warn()),
        Tone::Failure => (theme.glyphs.cross, theme.bad()),
    };
    let mut said = if app.presenter.on {
        by_title(&app.newest, &[app.director.last_title()], said)
    } else {
        said.to_owned()
    };
    if tone == Tone::Failure {
        said = text::failure(&said, more);
    }
    let indent = if glyph.is_empty() { 0 } else { width(glyph) + 1 };
    let mut lines = wrap(&said, usize::from(cells).saturating_sub(indent + 2));
    lines.truncate(3);
    let rows = lines.into_iter().enumerate().map(|(row, line)| {
        let head = if row == 0 { glyph } else { "" };
        let head = crate::widgets::left(head, indent, "");
        Line::from(vec![Span::styled(head, style), Span::styled(line, style)])
    });
    rows.chain(typed).collect()
}

fn filter_input(app: &mut App, canvas: &mut Canvas<'_>, y: u16) -> Option<Position> {
    let theme = app.theme;
    let input = app.filter()?;
    let x = canvas.text(1, y, "/", theme.key());
    let room = canvas.width().saturating_sub(x + 1);
    let area = canvas.part(x, y, room, 1).area();
    draw_input(area, canvas.buffer(), input, Style::new())
}

/// The guide in one or two lines, three below 80 columns, its title first.
pub(super) fn story_lines(app: &App, cells: u16) -> Vec<Line<'static>> {
    let (story, theme) = (&app.story, app.theme);
    if story.is_blank() {
        return Vec::new();
    }
    let reserved = story_key(app).width() + 6;
    let head = if story.done { theme.glyphs.check } else { theme.glyphs.pointer };
    let whole = format!("{head} {}  {}", story.title, story.text);
    let title = fit(&format!("{head} {}", story.title), usize::MAX, "");
    // The key is beside the first line only; the others have the full width.
    let mut lines = wrap(&whole, usize::from(cells).saturating_sub(reserved));
    if lines.len() > 1 {
        // Lines of wide characters break without a blank.
        let flat = fit(&whole.split_whitespace().collect::<Vec<_>>().join(" "), usize::MAX, "");
        let rest = lines.split_off(1).join(" ");
        let rest = flat.get(lines.iter().map(String::len).sum()..).map_or(rest, str::to_owned);
        let (rest, room) = (rest.trim_start(), usize::from(cells).saturating_sub(4));
        // The next step is at the end. In the presenter layout the figures matter more.
        if cells < COMPLETE.0 && !app.presenter.on {
            let more = wrap(rest, room);
            let cut = more.len() > 2;
            lines.extend(more.into_iter().take(2));
            if let Some(last) = lines.last_mut().filter(|_| cut) {
                *last = fit(&format!("{last}{}", " ".repeat(room)), room, theme.glyphs.ellipsis);
            }
        } else {
            lines.push(fit(rest, room, theme.glyphs.ellipsis));
        }
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
    // Keys of the views have no effect in the presenter layout.
    let first = key.split_whitespace().next();
    let leaves = app.presenter.on && !keymap::holds(Context::Presenter, first.unwrap_or_default());
    let leave =
        if leaves { format!("{}  ", keymap::key_of(Action::Present)) } else { String::new() };
    let key = fit(&format!("{leave}{key}"), 12, app.theme.glyphs.ellipsis);
    Line::from(vec![
        Span::styled(format!("{} ", Label("console-press")), app.theme.soft()),
        Span::styled(format!(" {key} "), app.theme.key().patch(app.theme.selected())),
    ])
}
