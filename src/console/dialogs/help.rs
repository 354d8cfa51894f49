//! The help screen: the whole keymap, with the keys of the current view first.

use ratatui::{prelude::*, widgets::Paragraph};

use seckill_model::Label;

use super::more;
use crate::{
    keymap::{Binding, Context, Key},
    theme::Theme,
    widgets::{fit, left, popup},
};

#[derive(Debug)]
pub(crate) struct Help {
    /// Its keys are first.
    context: Context,
    scroll: usize,
    /// Shown in the lower edge.
    foot: Option<String>,
    /// The bindings that it lists.
    bindings: Vec<&'static Binding>,
}

/// The widest help.
const WIDTH: u16 = 70;
/// Cells for the keys of one binding.
const KEYS: usize = 15;

impl Help {
    pub(crate) fn new(
        context: Context,
        foot: Option<String>,
        bindings: Vec<&'static Binding>,
    ) -> Self {
        Self { context, scroll: 0, foot, bindings }
    }

    pub(crate) fn step(&mut self, forward: bool) {
        self.scroll = if forward { self.scroll + 5 } else { self.scroll.saturating_sub(5) };
    }

    pub(crate) fn draw(&mut self, area: Rect, buffer: &mut Buffer, theme: Theme) {
        let width = area.width.saturating_sub(2).min(WIDTH);
        let sections = self.sections(theme, usize::from(width.saturating_sub(6)));
        let lines = sections.join(&Line::default());
        let height = (lines.len() as u16 + 2).min(area.height);
        let visible = usize::from(height.saturating_sub(2));
        self.scroll = self.scroll.min(lines.len().saturating_sub(visible));
        let foot = self.foot.as_ref().map(|foot| Line::styled(format!(" {foot} "), theme.soft));
        let more = (lines.len() > self.scroll + visible).then(|| more(theme));
        let bottom = foot.into_iter().chain(more);
        let inside = popup(area, buffer, theme, (width, height), &Label("console-keys"), bottom);
        let lines = Paragraph::new(lines).scroll((self.scroll as u16, 0));
        lines.render(inside.inner(Margin::new(2, 0)), buffer);
    }

    /// The bindings of each context below its heading.
    fn sections(&self, theme: Theme, width: usize) -> Vec<Vec<Line<'static>>> {
        let line = |binding: &Binding| {
            let keys: Vec<String> = binding.keys.iter().copied().map(Key::label).collect();
            let keys = left(&keys.join(" "), KEYS);
            let room = width.saturating_sub(KEYS + 1);
            let meaning = fit(binding.action.help(), room);
            Line::from(vec![Span::styled(keys, theme.key), Span::raw(" "), Span::raw(meaning)])
        };
        let section = |context: Context| {
            let bound = self.bindings.iter().filter(|it| it.context == context);
            let bound: Vec<_> = bound.filter(|it| !it.keys.is_empty()).map(|it| line(it)).collect();
            let heading = Line::styled(context.heading(), theme.heading);
            (!bound.is_empty()).then(|| std::iter::once(heading).chain(bound).collect())
        };
        let others = Context::all().filter(|context| *context != self.context);
        std::iter::once(self.context).chain(others).filter_map(section).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{keymap::table, keymap_config::choose_default, theme::Depth, view::View};

    #[test]
    fn every_binding_is_listed_and_those_of_the_view_are_first() {
        choose_default();
        let help = Help::new(Context::View(View::Sales), None, table().iter().collect());
        let lines = help.sections(Theme::new(Depth::None, false), 53).concat();
        assert_eq!(lines[0].to_string(), Context::View(View::Sales).heading());
        let rows: Vec<String> = lines.iter().map(Line::to_string).collect();
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
