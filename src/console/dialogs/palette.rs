//! The command palette: runs an action by name, and goes to a row by its ID or name.

use ratatui::{
    layout::Constraint::{Fill, Length},
    prelude::*,
};
use seckill_model::{Label, text};
use tui_input::Input;

use super::{draw_input, draw_list, more};
use crate::{
    keymap::{Action, key_of},
    theme::Theme,
    view::View,
    widgets::{self, fit, left, popup, right},
};

/// An entry.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) action: Action,
    pub(crate) name: String,
    /// Its settings name, which also matches.
    pub(crate) alias: String,
    /// Why it is unavailable.
    pub(crate) why: Option<String>,
    /// The view that it opens first.
    pub(crate) view: Option<View>,
    /// The ID or name of the row that it selects, empty for the typed number; offered once something is typed.
    pub(crate) row: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Palette {
    pub(crate) input: Input,
    offers: Vec<Offer>,
    /// Number of recently used entries at the start.
    recent: usize,
    pub(crate) cursor: usize,
}

/// Cells for the longest name.
const NAME: usize = 22;
/// Cells for a key.
const KEY: usize = 9;

impl Palette {
    /// All entries, the most recently used first.
    pub(crate) fn new(mut offers: Vec<Offer>, used: &[Action]) -> Self {
        let place = |offer: &Offer| used.iter().position(|action| *action == offer.action);
        // Stable: the others keep the order of the keymap.
        offers.sort_by_key(|offer| place(offer).unwrap_or(usize::MAX));
        let recent = offers.iter().filter(|offer| place(offer).is_some()).count();
        Self { input: Input::default(), offers, recent, cursor: 0 }
    }

    pub(crate) fn chosen(&self) -> Option<&Offer> {
        self.matches().get(self.cursor).copied()
    }

    /// Matching entries, the best first.
    pub(super) fn matches(&self) -> Vec<&Offer> {
        let wanted = self.input.value().trim().to_lowercase();
        let mut found: Vec<_> = self
            .offers
            .iter()
            .filter_map(|offer| {
                if offer.row.as_deref() == Some("") {
                    return wanted.parse::<u64>().is_ok().then_some((2, offer));
                }
                let name = rank(&offer.name.to_lowercase(), &wanted);
                let alias = rank(&offer.alias, &wanted).map(|rank| rank + 1);
                Some((name.into_iter().chain(alias).min()?, offer))
            })
            // Scattered letters occur in too many rows.
            .filter(|(rank, offer)| offer.row.is_none() || (!wanted.is_empty() && *rank < 3))
            .collect();
        // Stable sort; available entries come before unavailable ones.
        found.sort_by_key(|(rank, offer)| (!wanted.is_empty() && offer.why.is_some(), *rank));
        found.into_iter().map(|(_, offer)| offer).collect()
    }

    pub(crate) fn draw(&self, area: Rect, buffer: &mut Buffer, theme: Theme) -> Option<Position> {
        let height = (self.offers.len() as u16 + 4).min(16).min(area.height.saturating_sub(2));
        let width = area.width.saturating_sub(4).min(74);
        let matches = self.matches();
        let hidden = matches.len() > self.cursor.max(usize::from(height - 5)) + 1;
        let more = hidden.then(|| more(theme));
        let inside = popup(area, buffer, theme, (width, height), &Label("console-command"), more);
        let [prompt, _, list] = Layout::vertical([Length(1), Length(1), Fill(1)])
            .areas(inside.inner(Margin::new(2, 0)));
        let [colon, input] = Layout::horizontal([Length(2), Fill(1)]).areas(prompt);
        Span::styled(":", theme.key).render(colon, buffer);
        let cursor = draw_input(input, buffer, &self.input, Style::new());
        if matches.is_empty() {
            Span::styled(&*Label("console-no-matching-command"), theme.soft).render(list, buffer);
        }
        let line = |(row, offer): (usize, &&Offer)| {
            let style = if offer.why.is_some() { theme.soft } else { Style::new() };
            let name = left(&offer.name, NAME.max(widgets::width(&offer.name) + 1));
            let key = right(&key_of(offer.action), KEY);
            let place = offer.view.map(|view| text!("conventions-in", views = view.title()));
            let recent = row < self.recent && self.input.value().is_empty();
            let recent = recent.then_some(&*Label("conventions-used-before"));
            let room = usize::from(list.width).saturating_sub(widgets::width(&name) + KEY + 3);
            let beside = offer.why.as_deref().or(recent).or(place.as_deref()).unwrap_or_default();
            let beside = fit(beside, room);
            Line::from(vec![
                Span::styled(name, style),
                Span::styled(key, theme.key),
                Span::styled(format!("   {beside}"), theme.soft),
            ])
        };
        let lines = matches.iter().enumerate().map(line).collect();
        draw_list(list, buffer, theme, lines, Some(self.cursor));
        cursor
    }
}

/// How a name matches what is typed, the best first: it begins with it, a word of it does, or it contains it, at least
/// its letters in this order. `None` if a letter is missing.
fn rank(name: &str, wanted: &str) -> Option<u8> {
    let mut letters = name.chars();
    let mut wanted_letters = wanted.chars().filter(|c| !c.is_whitespace());
    match name.find(wanted) {
        Some(0) => Some(0),
        Some(_) if format!(" {name}").contains(&format!(" {wanted}")) => Some(1),
        Some(_) => Some(2),
        None => wanted_letters.all(|c| letters.any(|it| it == c)).then_some(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn palette(used: &[Action]) -> Palette {
        let offer = |action, name: &str, why: Option<&str>| Offer {
            action,
            name: name.to_owned(),
            alias: String::new(),
            why: why.map(str::to_owned),
            view: None,
            row: None,
        };
        let offers = vec![
            offer(Action::Go(View::Overview), "overview", None),
            offer(Action::Pause, "pause / resume", None),
            offer(Action::ReplayLetters, "replay dead letters", Some("in Dead letters")),
            offer(Action::NewSale, "new sale", None),
            offer(Action::Rush, "rush", None),
        ];
        Palette::new(offers, used)
    }

    fn names(palette: &mut Palette, typed: &str) -> Vec<String> {
        palette.input = typed.into();
        palette.matches().into_iter().map(|offer| offer.name.clone()).collect()
    }

    #[test]
    fn prefix_matches_rank_before_word_and_letter_matches() {
        let mut palette = palette(&[]);
        let found = names(&mut palette, "r");
        assert_eq!(found, ["rush", "pause / resume", "overview", "replay dead letters"]);
        assert_eq!(names(&mut palette, "nsl"), ["new sale"]);
        assert_eq!(names(&mut palette, "dl"), ["replay dead letters"]);
        assert_eq!(names(&mut palette, "dead l"), ["replay dead letters"]);
        assert!(names(&mut palette, "zzz").is_empty() && palette.chosen().is_none());
        assert_eq!(names(&mut palette, "").len(), 5);
    }

    #[test]
    fn recent_commands_come_first_until_something_is_typed() {
        let mut palette = palette(&[Action::Rush, Action::NewSale]);
        assert_eq!(names(&mut palette, "")[..3], ["rush", "new sale", "overview"]);
        assert_eq!(names(&mut palette, "ov")[0], "overview");
    }
}
