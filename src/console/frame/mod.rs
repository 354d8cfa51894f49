//! The whole screen: the view, and the frame around it with header, tabs, guide, status line and keys.

mod presenter;
pub(crate) mod tabs;

use ratatui::{
    layout::Constraint::{Fill, Length},
    prelude::*,
    widgets::{Clear, Paragraph},
};
use seckill_engine::{Health, SaleLine, Snapshot};
use seckill_model::{Balance, Label, Millis, Phase, locale::language, text};

use crate::{
    app::App,
    dialogs::{Dialog, draw_input},
    keymap::{self, Action, Context},
    status::Tone,
    text::{self, figures},
    theme::{Theme, glyphs},
    view::View,
    views::{COMPLETE, SIDES, draw_text, is_stale, is_too_small, phase},
    widgets::{self, fit, left, plain, popup, right, width, wrap, wrap_to},
};

/// From this width on, servers and audit are shown in full.
const WIDE: u16 = 112;
/// Cells of a title that take precedence over the time.
const LEAST_TITLE: usize = 14;

/// The widest figure of orders in flight.
const MOST_IN_FLIGHT: u64 = 99_999;
/// Rows of the guide while it is active.
const GUIDE: u16 = 2;

/// Draws everything.
pub(crate) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let area = frame.area();
    app.terminal.size = (area.width, area.height);
    if let Some(at) = paint(app, frame.buffer_mut()) {
        frame.set_cursor_position(at);
    }
}

/// Draws everything into `buffer`, and returns the cursor position.
pub(crate) fn paint(app: &mut App, buffer: &mut Buffer) -> Option<Position> {
    let area = buffer.area;
    app.terminal.unseen = is_too_small(area.width, area.height);
    if app.terminal.unseen {
        let size =
            text!("console-window-too-small-x-minimum", width = area.width, height = area.height);
        let lines = wrap(&size, usize::from(area.width));
        let middle = area.centered_vertically(Length(lines.len() as u16));
        Paragraph::new(lines.join("\n"))
            .style(app.display.theme.strong)
            .centered()
            .render(middle, buffer);
        app.display.theme.settle(buffer);
        return None;
    }
    let mut cursor = draw_frame(app, area, buffer);
    if let Some(dialog) = &mut app.dialog {
        cursor = dialog.draw(area, buffer, &app.display);
    }
    if !app.guide.summary.is_empty() {
        draw_summary(app, area, buffer);
        cursor = None;
    }
    if app.display.theme.ascii {
        widgets::to_ascii(buffer, !language().is_ascii());
    }
    app.display.theme.settle(buffer);
    cursor
}

/// Draws the frame and the view in it; returns the cursor position.
fn draw_frame(app: &mut App, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let (theme, compact) = (app.display.theme, area.width < COMPLETE.0 || area.height < COMPLETE.1);
    // The presenter layout has no tabs, and neither has the lab alone.
    let presents = app.presenter.on;
    let answer = answer_lines(app, area.width);
    let answer_rows = answer.len() as u16;
    // A table keeps its cursor visible when messages take more rows. The others keep their layout, and messages cover
    // them.
    let kept = if presents || app.view == View::Overview { 1 } else { answer_rows };
    let guide_rows = if app.guide.is_blank() { 0 } else { GUIDE };
    let [head, tab_row, rule, body, messages, foot] = Layout::vertical([
        Length(1),
        Length(u16::from(!presents && !app.alone)),
        Length(u16::from(!presents && !compact)),
        Fill(1),
        Length(guide_rows + kept),
        Length(1),
    ])
    .areas(area);
    header(app, head.inner(SIDES), buffer);
    let dashes = glyphs::RULE.repeat(usize::from(rule.width));
    Line::styled(dashes, theme.soft).render(rule, buffer);
    let tabs = if app.alone { Vec::new() } else { tabs::draw(app, tab_row, rule, buffer) };
    // In the presenter layout they are in the header.
    let badges = if presents { Line::default() } else { badges(app) };
    let hints = Length(foot.width - if rule.is_empty() { badges.width() as u16 + 1 } else { 0 });
    let [hints] = Layout::horizontal([hints]).areas(foot);
    let badge_row = if rule.is_empty() { foot } else { rule };
    badges.right_aligned().render(badge_row.inner(SIDES), buffer);
    let keys = keys(app, hints.inner(SIDES), buffer);
    app.terminal.clickable = tabs.into_iter().chain(keys).collect();
    if presents {
        presenter::draw(app, body, buffer, compact);
    } else {
        draw_view(app, body, buffer, compact);
    }

    let rows = Length(guide_rows + answer_rows);
    let [_, messages] = Layout::vertical([Fill(1), rows]).areas(body.union(messages));
    Clear.render(messages, buffer);
    let [guide, answers] = Layout::vertical([Length(guide_rows), Fill(1)]).areas(messages);
    // A third line of the guide is in the row of the messages, which come first.
    let is_covered = app.views.filtering || app.status.shown().is_some();
    draw_guide(app, if is_covered { guide } else { messages }, buffer);
    if !answer.is_empty() {
        Paragraph::new(answer).render(answers.inner(SIDES), buffer);
    }
    // Messages are above the input.
    if app.views.filtering { filter_input(app, answers.inner(SIDES), buffer) } else { None }
}

/// Draws the view into the area that the frame leaves.
fn draw_view(app: &mut App, area: Rect, buffer: &mut Buffer, compact: bool) {
    let App { display, views, view, .. } = app;
    display.compact = compact;
    display.chosen = views.sales.chosen;
    display.typing = views.filtering;
    display.countdown = app.guide.countdown;
    if !display.has_data() {
        return draw_text(area, buffer, display, 1, &text::NO_DATA);
    }
    views.get_mut(*view).draw(area, buffer, display);
}

fn header(app: &App, area: Rect, buffer: &mut Buffer) {
    let (theme, presents) = (app.display.theme, app.presenter.on);
    let wide = area.width + 2 >= WIDE;
    let states = match () {
        () if presents => badges(app),
        () if app.view == View::Attach => app.views.attach.state(&app.display),
        () if app.alone => Line::styled(Label("lab-view-servers").read(), theme.soft),
        () => states(app, wide),
    };
    let [left, right] =
        Layout::horizontal([Fill(1), Length(states.width() as u16)]).spacing(2).areas(area);
    states.render(right, buffer);
    let mut line = Line::from(Span::styled(text::PROGRAM, theme.key));
    line.push_span(" ");
    let room = usize::from(left.width).saturating_sub(line.width());
    // An armed launch takes precedence over the active sale, and a question over both.
    let asked = !presents && app.dialog.as_ref().and_then(Dialog::sale).is_some();
    match armed(app, room).filter(|_| !asked) {
        Some(armed) => line.extend(armed),
        None if presents => {}
        None => line.extend(headline(app, room, wide)),
    }
    line.render(left, buffer);
}

/// The audit and the servers, whose state is live, even while the display is paused.
fn states(app: &App, wide: bool) -> Line<'static> {
    let (theme, newest) = (app.display.theme, &app.display.newest);
    let mut states = Line::default();
    states.extend(audit(theme, &steady_audit(&app.display.shown), wide));
    let whole = newest.unreachable.is_empty();
    for (server, name, whole) in
        [(&newest.redis, text::REDIS, whole), (&newest.sql, text::SQL, true)]
    {
        states.extend(health(theme, server, name, whole, app.display.now, wide));
    }
    states
}

/// Names the sale that a command would affect, so that no dialog ever differs from the header. If there is none yet:
/// the number of sales with a load test, else the sale that [`App::active_sale`] names, else the first one that is not
/// over.
fn headline(app: &App, cells: usize, wide: bool) -> Line<'static> {
    let (theme, shown) = (app.display.theme, &app.display.shown);
    let mut line = Line::from(Span::styled(format!("{} ", glyphs::POINTER), theme.soft));
    let rushed = shown.rushed().len();
    if app.target_sale().is_none() && rushed > 1 {
        line.push_span(Span::styled(text!("overview-rushes", count = rushed), theme.strong));
        return line;
    }
    let open = || shown.foremost().filter(|sale| !sale.phase.is_over());
    let Some(sale) = app.target_sale().or_else(|| app.active_sale()).or_else(open) else {
        return Line::default();
    };
    let (word, style) = phase(theme, sale);
    let mut time = time_left(sale, app.display.seen(), wide).unwrap_or_default();
    let mut room = cells.saturating_sub(line.width() + width(&word) + 2);
    // The name matters more than the time.
    if room < width(&time) + 2 + LEAST_TITLE {
        time.clear();
    }
    room = room.saturating_sub(width(&time) + 2);
    let title = text::sale_name(sale.voucher_id, &sale.title);
    line.push_span(Span::styled(fit(&title, room), theme.strong));
    line.push_span(Span::styled(format!("  {word}"), style));
    line.push_span(format!("  {time}"));
    line
}

/// The armed launch in `cells`, for the top line of every view; an audience sees no IDs.
fn armed(app: &App, cells: usize) -> Option<Line<'static>> {
    let theme = app.display.theme;
    let (launch, at) = app.director.scheduled()?;
    let badge = match at {
        Some(at) => text!("director-armed", left = figures::clock(at.since(app.display.now))),
        None => text!("director-opening"),
    };
    let badge = Span::styled(format!(" {badge} "), theme.badge);
    let room = cells.saturating_sub(badge.width() + 1);
    let launch = fit(&launch.badge(!app.presenter.on), room);
    Some(Line::from(vec![badge, Span::raw(" "), Span::styled(launch, theme.strong)]))
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

/// One server, or a cluster of which a server may be unreachable: its name, whether it is up, and if there is room its
/// latency or the time since it failed. The width is constant, so that nothing beside it moves; in a narrow window the
/// panel headings show the age.
fn health(
    theme: Theme,
    health: &Health,
    fallback: &str,
    whole: bool,
    now: Millis,
    wide: bool,
) -> impl Iterator<Item = Span<'static>> {
    let name = health.name.split_whitespace().next().unwrap_or(fallback);
    let age = health.last_ok.map(|at| now.since(at));
    let latency = figures::latency(health.latency_us);
    let (glyph, [style, beside], text) = match &health.unwritable {
        _ if !health.up => (glyphs::AWAY, [theme.bad; 2], text::age(age)),
        Some(_) => (glyphs::AWAY, [theme.bad; 2], latency),
        None if is_stale(health, now) => ("!", [theme.warn; 2], text::age(age)),
        None if !whole => ("!", [theme.warn; 2], latency),
        None => (glyphs::UP, [theme.good, theme.soft], latency),
    };
    let text = wide.then(|| {
        let room = width(&figures::steady_span(0));
        Span::styled(format!(" {}", right(&text, room)), beside)
    });
    [Span::raw(format!("  {} ", plain(name))), Span::styled(glyph, style)].into_iter().chain(text)
}

/// The audit state without flicker: while orders arrive it is in flight, even in a snapshot that happens to find no
/// such order.
fn steady_audit(snapshot: &Snapshot) -> Balance {
    let comes = snapshot.funnel.admitted.per_second > 0.0 || snapshot.written.per_second > 0.0;
    match &snapshot.audit {
        Balance::Balanced { .. } if comes => Balance::InFlight { orders: 0 },
        balance => balance.clone(),
    }
}

/// The audit state: its glyph, style and name.
fn audit_state(theme: Theme, balance: &Balance) -> (&'static str, Style, Label) {
    match balance {
        Balance::Balanced { .. } => (glyphs::CHECK, theme.good, text::BALANCED),
        Balance::InFlight { .. } => (glyphs::MOVING, theme.accent, Label("console-audit-open")),
        Balance::Off { .. } => (glyphs::CROSS, theme.bad, Label("console-audit-failed")),
        Balance::Unknown => ("?", theme.warn, Label("console-audit-unknown")),
    }
}

fn audit(theme: Theme, balance: &Balance, wide: bool) -> [Span<'static>; 2] {
    let (glyph, style, name) = audit_state(theme, balance);
    if !wide {
        return [Span::raw(format!("{} ", Label("common-audit"))), Span::styled(glyph, style)];
    }
    let full = match balance {
        Balance::InFlight { orders } => text::in_flight(*orders),
        _ => name.to_owned(),
    };
    // As wide as the widest state, so that nothing beside it moves.
    let widest = width(&text::in_flight(MOST_IN_FLIGHT)).max(width(&text::BALANCED));
    let full = left(&full, widest);
    [Span::styled(format!("{glyph} "), style), Span::styled(full, style)]
}

/// Important properties of the display, as badges.
fn badges(app: &App) -> Line<'static> {
    let theme = app.display.theme;
    let mut badges = Vec::new();
    if app.display.shown.read_only {
        badges.push(Span::styled(format!(" {} ", text::READ_ONLY), theme.badge));
    }
    if app.display.frozen {
        let age = figures::steady_span(app.display.now.since(app.display.shown.taken));
        badges.push(Span::raw(" "));
        badges.push(Span::styled(format!(" {} {age} ", text::FROZEN), theme.badge));
    }
    Line::from(badges)
}

/// Key hints of the context, as many as fit. Returns the cells of each.
fn keys(app: &App, area: Rect, buffer: &mut Buffer) -> Vec<(Rect, Action)> {
    let no_yes = matches!(&app.dialog, Some(Dialog::Confirm(asked))
        if asked.in_reason() || asked.number_missing().is_some());
    let hints = keymap::footer(app.context())
        .filter(|it| !(no_yes && it.action == Action::Accept))
        // An audience has no use for a key that only explains why it has no effect.
        .filter(|it| !(app.presenter.on || app.alone) || app.why_not(it.action).is_none())
        .map(|it| {
            let key = Span::styled(it.keys[0].label(), app.display.theme.key);
            let word = Span::styled(format!(" {}", it.action.label()), app.display.theme.soft);
            (Line::from(vec![key, word]), it.action)
        });
    let room = usize::from(area.width);
    let (mut line, mut places) = (Line::default(), Vec::new());
    for (hint, action) in hints {
        let (before, cells) = (line.width(), hint.width());
        if before + cells <= room {
            let place = Rect { x: area.x + before as u16, width: cells as u16, ..area };
            places.push((place, action));
            line.extend(hint);
            line.push_span("  ");
        }
    }
    line.render(area, buffer);
    places
}

/// The status line, of at least one row, so that nothing moves when a message appears; filter input has a row of its
/// own below.
fn answer_lines(app: &App, cells: u16) -> Vec<Line<'static>> {
    let theme = app.display.theme;
    let typed = app.views.filtering.then(Line::default);
    let Some((tone, message, more)) = app.status.shown() else { return vec![Line::default()] };
    let (text, style) = match tone {
        Tone::Note => (message.to_owned(), Style::new()),
        Tone::Good => (format!("{} {message}", glyphs::CHECK), theme.good),
        Tone::Mixed => (format!("! {message}"), theme.warn),
        Tone::Failure => {
            let text = text!("console-dismisses", error = message, more);
            (format!("{} {text}", glyphs::CROSS), theme.bad)
        }
    };
    let mut lines = wrap(&text, usize::from(cells).saturating_sub(2));
    lines.truncate(3);
    lines.into_iter().map(|line| Line::styled(line, style)).chain(typed).collect()
}

/// The filter, in the last row.
fn filter_input(app: &mut App, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let theme = app.display.theme;
    let input = app.filter()?;
    let [_, row] = Layout::vertical([Fill(1), Length(1)]).areas(area);
    let [slash, field] = Layout::horizontal([Length(1), Fill(1)]).areas(row);
    Span::styled("/", theme.key).render(slash, buffer);
    draw_input(field, buffer, input, Style::new())
}

/// The result of the guide, over the middle of the screen.
fn draw_summary(app: &App, area: Rect, buffer: &mut Buffer) {
    const WIDTH: usize = 56;
    const LABEL: usize = WIDTH - 6 - FIGURE;
    const FIGURE: usize = 20;
    let (guide, theme) = (&app.guide, app.display.theme);
    let figures = guide.summary.iter().map(|(label, figure)| {
        let label = Span::styled(left(label, LABEL), theme.soft);
        Line::from(vec![label, Span::styled(right(figure, FIGURE), theme.strong)])
    });
    let next = wrap(&guide.next, WIDTH - 6).into_iter().map(Line::raw);
    let blank = || std::iter::once(Line::default());
    let mut lines: Vec<_> =
        blank().chain(figures).chain(blank()).chain(next).chain(blank()).collect();
    if lines.len() + 2 > usize::from(area.height) {
        lines.retain(|line| line.width() > 0);
    }
    let size = (WIDTH as u16, lines.len() as u16 + 2);
    let closes = Line::styled(format!(" {} ", Label("console-any-key-closes")), theme.soft);
    let inside = popup(area, buffer, theme, size, &guide.title, [closes.right_aligned()]);
    Paragraph::new(lines).render(inside.inner(Margin::new(2, 0)), buffer);
}

/// The guide with its title first, beside its key.
fn draw_guide(app: &App, area: Rect, buffer: &mut Buffer) {
    let (guide, theme) = (&app.guide, app.display.theme);
    if guide.is_blank() {
        return;
    }
    let key = guide_key(app);
    let columns = Layout::horizontal([Length(1), Fill(1), Length(key.width() as u16)]).spacing(1);
    let [mark, text, key_area] = columns.areas(area.inner(SIDES));
    let glyph = if guide.done { glyphs::CHECK } else { glyphs::POINTER };
    Span::styled(glyph, theme.key).render(mark, buffer);
    key.render(key_area, buffer);
    let whole = format!("{} {}", guide.title, guide.text);
    let lines = wrap_to(&whole, usize::from(text.width), usize::from(text.height));
    Paragraph::new(lines.join("\n")).render(text, buffer);
    let title = Rect { width: width(&guide.title) as u16, height: 1, ..text };
    buffer.set_style(title.intersection(text), theme.key);
}

/// The keys that the presenter presses next.
fn guide_key(app: &App) -> Line<'static> {
    let Some(key) = app.guide.key.as_ref() else { return Line::default() };
    // Keys of the views have no effect in the presenter layout.
    let first = key.split_whitespace().next();
    let leaves = app.presenter.on && !keymap::holds(Context::Presenter, first.unwrap_or_default());
    let leave =
        if leaves { format!("{}  ", keymap::key_of(Action::Present)) } else { String::new() };
    let key = fit(&format!("{leave}{key}"), 12);
    Line::styled(format!(" {key} "), app.display.theme.key.patch(app.display.theme.selected))
}
