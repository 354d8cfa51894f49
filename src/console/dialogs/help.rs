//! The help screen: the keymap in full.

use ratatui::text::{Line, Span};

use super::panel;
use crate::{
    keymap::{Context, Key, table},
    text,
    theme::Theme,
    widgets::{Canvas, left},
};

#[derive(Debug, Default)]
pub(crate) struct Help {
    scroll: usize,
    /// Shown in the lower edge.
    foot: Option<String>,
}

/// Cells for the keys of one binding.
const KEYS: usize = 15;

impl Help {
    pub(crate) fn new(foot: Option<String>) -> Self {
        Self { scroll: 0, foot }
    }

    pub(crate) fn step(&mut self, forward: bool) {
        self.scroll = if forward { self.scroll + 5 } else { self.scroll.saturating_sub(5) };
    }

    pub(crate) fn draw(&mut self, canvas: &mut Canvas<'_>, theme: Theme) {
        let wide = canvas.width() >= 108;
        let width = if wide { 116 } else { 70 }.min(canvas.width().saturating_sub(2));
        let inner = usize::from(width.saturating_sub(6));
        let column = if wide { (inner - 3) / 2 } else { inner };
        let lines = lines(theme, column);
        let split = if wide { half(&lines) } else { lines.len() };
        let (first, second) = lines.split_at(split);
        let rows = first.len().max(second.len());
        let height = (rows as u16 + 2).min(canvas.height());
        let visible = usize::from(height.saturating_sub(2));
        self.scroll = self.scroll.min(rows.saturating_sub(visible));
        let mut panel = panel(canvas, theme, (width, height), &text::HELP_TITLE);
        for (x, part) in [(3, first), (3 + column as u16 + 3, second)] {
            for (y, (_, line)) in part.iter().skip(self.scroll).take(visible).enumerate() {
                panel.line(x, y as u16 + 1, line);
            }
        }
        let bottom = height.saturating_sub(1);
        if let Some(foot) = &self.foot {
            panel.text(2, bottom, &format!(" {foot} "), theme.soft());
        }
        if rows > self.scroll + visible {
            let more = format!(" {} ", theme.glyphs.falling);
            panel.text(width.saturating_sub(6), bottom, &more, theme.key());
        }
    }
}

/// Lines, with a marker on the first line of each section.
fn lines(theme: Theme, width: usize) -> Vec<(bool, Line<'static>)> {
    let mut lines = Vec::new();
    for context in Context::all() {
        if !lines.is_empty() {
            lines.push((false, Line::default()));
        }
        lines.push((true, Line::styled(context.heading(), theme.heading())));
        for binding in table().iter().filter(|it| it.context == context && !it.keys.is_empty()) {
            let keys: Vec<String> = binding.keys.iter().copied().map(Key::label).collect();
            let keys = left(&keys.join(" "), KEYS, theme.glyphs.ellipsis);
            let meaning =
                left(binding.action.help(), width.saturating_sub(KEYS + 1), theme.glyphs.ellipsis);
            let line = Line::from(vec![
                Span::styled(keys, theme.key()),
                Span::raw(" "),
                Span::raw(meaning),
            ]);
            lines.push((false, line));
        }
    }
    lines
}

/// Where to split into two columns: at the section nearest to the middle.
fn half(lines: &[(bool, Line<'_>)]) -> usize {
    let middle = lines.len() / 2;
    let heads = lines.iter().enumerate().filter(|(_, (head, _))| *head).map(|(at, _)| at);
    heads.min_by_key(|at| at.abs_diff(middle)).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Depth;

    #[test]
    fn every_binding_is_listed() {
        // The narrower of the two columns.
        let lines = lines(Theme::new(Depth::None, false), 53);
        let rows: Vec<String> = lines.iter().map(|(_, line)| line.to_string()).collect();
        for binding in table() {
            let meaning = binding.action.help();
            let key = binding.keys[0].label();
            assert!(
                rows.iter().any(|line| line.starts_with(&key) && line.contains(meaning)),
                "{binding:?} is missing"
            );
        }
    }
}
