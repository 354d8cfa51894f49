//! The command palette: runs an action by name.

use ratatui::{crossterm::event::Event, style::Style};
use seckill_model::message::Label;
use tui_input::Input;

use super::{draw_input, panel, typed};
use crate::{
    keymap::{Action, key_of},
    text::{self},
    theme::Theme,
    widgets::{Canvas, fit, right, width},
};

/// An entry.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) action: Action,
    pub(crate) name: &'static str,
    /// Its settings name, which also matches.
    pub(crate) alias: String,
    /// Why it is unavailable.
    pub(crate) why: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Palette {
    input: Input,
    offers: Vec<Offer>,
    /// Number of recently used entries at the start.
    recent: usize,
    cursor: usize,
}

/// Cells for the longest name.
const NAME: u16 = 22;
/// Cells for a key.
const KEY: u16 = 9;

impl Palette {
    /// All entries, the most recently used first.
    pub(crate) fn new(mut offers: Vec<Offer>, used: &[Action]) -> Self {
        let place = |offer: &Offer| used.iter().position(|action| *action == offer.action);
        // Stable: the others keep the order of the keymap.
        offers.sort_by_key(|offer| place(offer).unwrap_or(usize::MAX));
        let recent = offers.iter().filter(|offer| place(offer).is_some()).count();
        Self { input: Input::default(), offers, recent, cursor: 0 }
    }

    pub(crate) fn type_in(&mut self, event: &Event) {
        if typed(&mut self.input, event) {
            self.cursor = 0;
        }
    }

    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    pub(crate) fn step(&mut self, forward: bool) {
        let count = self.matches().len().max(1);
        self.cursor = (self.cursor + if forward { 1 } else { count - 1 }) % count;
    }

    pub(crate) fn chosen(&self) -> Option<&Offer> {
        self.matches().get(self.cursor).copied()
    }

    /// Matching entries, the best first.
    fn matches(&self) -> Vec<&Offer> {
        let wanted = self.input.value().trim().to_lowercase();
        let mut found: Vec<_> = self
            .offers
            .iter()
            .filter_map(|offer| {
                let alias = score(&offer.alias, &wanted).map(|cost| cost + 1);
                let cost =
                    score(&offer.name.to_lowercase(), &wanted).into_iter().chain(alias).min();
                Some((cost?, offer))
            })
            .collect();
        // Stable sort; available entries come before unavailable ones.
        found.sort_by_key(|(cost, offer)| (!wanted.is_empty() && offer.why.is_some(), *cost));
        found.into_iter().map(|(_, offer)| offer).collect()
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas<'_>, theme: Theme) -> Option<(u16, u16)> {
        let rows = (self.offers.len() as u16 + 4).min(16).min(canvas.height().saturating_sub(2));
        let wide = canvas.width().saturating_sub(4).min(74);
        let mut panel = panel(canvas, theme, (wide, rows), &text::PALETTE_TITLE);
        let inner = wide.saturating_sub(6);
        panel.text(3, 1, ":", theme.key());
        let cursor = draw_input(
            &mut panel.part(5, 1, inner.saturating_sub(2), 1),
            theme,
            &self.input,
            false,
        );
        let matches = self.matches();
        if matches.is_empty() {
            panel.text(3, 3, &text::NO_COMMAND, theme.soft());
        }
        let room = usize::from(rows.saturating_sub(4));
        let first = (self.cursor + 1).saturating_sub(room);
        for (row, offer) in matches.iter().enumerate().skip(first).take(room) {
            let mut line = panel.part(3, (row - first) as u16 + 3, inner, 1);
            let style = if offer.why.is_some() { theme.soft() } else { Style::new() };
            line.text(0, 0, offer.name, style);
            let recent = row < self.recent && self.input.value().is_empty();
            let beside =
                offer.why.as_deref().or(recent.then_some(&*Label("conventions-used-before")));
            let ellipsis = theme.glyphs.ellipsis;
            let x = NAME.max(width(offer.name) as u16 + 1);
            let key = right(&key_of(offer.action), usize::from(KEY), ellipsis);
            line.text(x, 0, &key, theme.key());
            let x = x + KEY + 3;
            let beside =
                fit(beside.unwrap_or_default(), usize::from(inner.saturating_sub(x)), ellipsis);
            line.text(x, 0, &beside, theme.soft());
            if row == self.cursor {
                line.tint(0, Style::reset());
                line.tint(0, theme.selected());
            }
        }
        if matches.len() > first + room {
            let more = format!(" {} ", theme.glyphs.falling);
            panel.text(wide.saturating_sub(6), rows.saturating_sub(1), &more, theme.key());
        }
        cursor
    }
}

/// The cost of matching `wanted` as a subsequence of a name: free at its beginning, cheap at word starts and for
/// adjacent letters. `None` if a letter is missing.
fn score(name: &str, wanted: &str) -> Option<u32> {
    const WORD: u32 = 2;
    const INSIDE: u32 = 12;
    let letters: Vec<char> = name.chars().collect();
    let begins = |at: usize| at == 0 || letters.get(at - 1).is_some_and(|c| !c.is_alphanumeric());
    // Cost of having matched all letters so far, by the position of the last one.
    let mut ends: Vec<Option<u32>> = vec![None; letters.len()];
    for (place, c) in wanted.chars().filter(|c| !c.is_whitespace()).enumerate() {
        let mut next = vec![None; letters.len()];
        for (at, letter) in letters.iter().enumerate() {
            if *letter != c {
                continue;
            }
            let jump = match (at, begins(at)) {
                (0, _) => 0,
                (_, true) => WORD,
                _ => INSIDE,
            };
            let before = if place == 0 {
                Some(jump)
            } else {
                let beside = at.checked_sub(1).and_then(|at| ends.get(at).copied().flatten());
                let far = ends.iter().take(at).flatten().min().map(|cost| cost + jump);
                beside.into_iter().chain(far).min()
            };
            if let Some(slot) = next.get_mut(at) {
                *slot = before;
            }
        }
        ends = next;
    }
    if wanted.trim().is_empty() { Some(0) } else { ends.into_iter().flatten().min() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::View;

    fn palette(used: &[Action]) -> Palette {
        let offer = |action, name, why: Option<&str>| Offer {
            action,
            name,
            alias: String::new(),
            why: why.map(str::to_owned),
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

    fn names(palette: &mut Palette, typed: &str) -> Vec<&'static str> {
        palette.input = typed.into();
        palette.matches().into_iter().map(|offer| offer.name).collect()
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
