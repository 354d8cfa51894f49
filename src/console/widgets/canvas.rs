//! A drawing surface clipped to one rectangle of the screen.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{plain, width};

/// Draws into an area; coordinates are relative to its corner.
pub(crate) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
}

impl<'a> Canvas<'a> {
    pub(crate) fn new(buffer: &'a mut Buffer, area: Rect) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area }
    }

    /// A canvas for a part of this area.
    pub(crate) fn part(&mut self, x: u16, y: u16, width: u16, height: u16) -> Canvas<'_> {
        let part = Rect {
            x: self.area.x.saturating_add(x),
            y: self.area.y.saturating_add(y),
            width,
            height,
        };
        Canvas { buffer: self.buffer, area: part.intersection(self.area) }
    }

    /// The area on the screen.
    pub(crate) fn area(&self) -> Rect {
        self.area
    }

    /// The whole screen, for a widget that draws into [`Self::area`].
    pub(crate) fn buffer(&mut self) -> &mut Buffer {
        self.buffer
    }

    pub(crate) fn width(&self) -> u16 {
        self.area.width
    }

    pub(crate) fn height(&self) -> u16 {
        self.area.height
    }

    /// The screen position of a coordinate; `None` outside the area.
    pub(crate) fn on_screen(&self, x: u16, y: u16) -> Option<(u16, u16)> {
        (x < self.area.width && y < self.area.height).then(|| (self.area.x + x, self.area.y + y))
    }

    /// Draws styled text and returns the column after it.
    pub(crate) fn line(&mut self, x: u16, y: u16, line: &Line<'_>) -> u16 {
        match self.on_screen(x, y) {
            Some((column, row)) => {
                let (mut at, end) = (column, self.area.right());
                for span in &line.spans {
                    let style = line.style.patch(span.style);
                    let room = usize::from(end - at);
                    at = self.buffer.set_stringn(at, row, plain(&span.content), room, style).0;
                }
                at - self.area.x
            }
            None => x,
        }
    }

    pub(crate) fn text(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        self.line(x, y, &Line::from(Span::styled(text, style)))
    }

    /// Draws styled text aligned to the right edge.
    pub(crate) fn line_right(&mut self, y: u16, line: &Line<'_>) {
        let cells: usize = line.spans.iter().map(|span| width(&span.content)).sum();
        let cells = u16::try_from(cells).unwrap_or(u16::MAX);
        self.line(self.area.width.saturating_sub(cells), y, line);
    }
}
