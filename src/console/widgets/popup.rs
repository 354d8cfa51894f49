//! A framed box over the middle of an area.

use ratatui::{
    layout::Constraint::Length,
    prelude::*,
    widgets::{Block, BorderType, Clear},
};

use super::{fit, width};
use crate::theme::Theme;

/// Clears the middle of `area`, at most `size`, and draws a frame around it. `bottom` are texts in the lower edge.
/// Returns the area inside the frame.
///
/// Unlike with [`Clear`] alone, a wide character that overlaps the left edge is erased instead of cut in half.
pub(crate) fn popup(
    area: Rect,
    buffer: &mut Buffer,
    theme: Theme,
    size: (u16, u16),
    title: &str,
    bottom: impl IntoIterator<Item = Line<'static>>,
) -> Rect {
    let area = area.centered(Length(size.0), Length(size.1));
    if let Some(x) = area.x.checked_sub(1) {
        for y in area.rows().map(|row| row.y) {
            if width(buffer[(x, y)].symbol()) > 1 {
                buffer[(x, y)].set_symbol(" ");
            }
        }
    }
    Clear.render(area, buffer);
    let mut block = Block::bordered().border_type(BorderType::Rounded).border_style(theme.soft);
    if !title.is_empty() {
        let title = fit(title, usize::from(area.width.saturating_sub(6)));
        let style = Style::reset().patch(theme.strong);
        block = block.title_top(Line::styled(format!(" {title} "), style));
    }
    for line in bottom {
        block = block.title_bottom(line);
    }
    let inside = block.inner(area);
    block.render(area, buffer);
    inside
}
