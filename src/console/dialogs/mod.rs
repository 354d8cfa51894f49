//! Dialogs over a view: questions, forms, the palette, the help screen.
//!
//! A dialog holds its subject as data. It has no effects and no access to a Remote.

mod confirm;
mod export_menu;
mod form;
mod forms;
mod help;
mod palette;

pub(crate) use confirm::{Confirm, Intent};
pub(crate) use export_menu::ExportMenu;
pub(crate) use form::{Form, MOST, draw_input, is_cut, typed};
pub(crate) use forms::{Subject, Submission};
pub(crate) use help::Help;
pub(crate) use palette::{Offer, Palette};

use seckill_model::VoucherId;
use tui_input::Input;

use super::{keymap::Context, theme::Theme, widgets::Canvas};

/// The open dialog.
#[derive(Debug)]
pub(crate) enum Dialog {
    Confirm(Confirm),
    Form(Form),
    Palette(Palette),
    Help(Help),
    Export(ExportMenu),
}

impl Dialog {
    pub(crate) fn context(&self) -> Context {
        match self {
            // Input there is text, as in a form.
            Self::Confirm(confirm) if confirm.in_reason() => Context::Form,
            Self::Confirm(_) => Context::Confirm,
            Self::Form(form) if form.is_on_button() => Context::Button,
            Self::Form(_) => Context::Form,
            // Both are lists with a cursor.
            Self::Palette(_) | Self::Export(_) => Context::Palette,
            Self::Help(_) => Context::Help,
        }
    }

    /// The existing sale that it is about, if any.
    pub(crate) fn sale(&self) -> Option<VoucherId> {
        match self {
            Self::Confirm(confirm) => confirm.sale(),
            Self::Form(Form { subject: Subject::LoadTest(voucher), .. }) => Some(*voucher),
            _ => None,
        }
    }

    /// The focused text input.
    pub(crate) fn input(&self) -> Option<&Input> {
        match self {
            Self::Confirm(confirm) => confirm.input(),
            Self::Form(form) => form.input(),
            Self::Palette(palette) => Some(palette.input()),
            Self::Help(_) | Self::Export(_) => None,
        }
    }

    /// Draws over the view; returns the cursor position, if any.
    pub(crate) fn draw(&mut self, canvas: &mut Canvas<'_>, theme: Theme) -> Option<(u16, u16)> {
        match self {
            Self::Confirm(confirm) => confirm.draw(canvas, theme, str::to_owned),
            Self::Form(form) => form.draw(canvas, theme),
            Self::Palette(palette) => palette.draw(canvas, theme),
            Self::Help(help) => {
                help.draw(canvas, theme);
                None
            }
            Self::Export(menu) => {
                menu.draw(canvas, theme);
                None
            }
        }
    }
}

/// A cleared, framed box of at most that size in the middle of the area.
fn panel<'p>(
    canvas: &'p mut Canvas<'_>,
    theme: Theme,
    (width, height): (u16, u16),
    title: &str,
) -> Canvas<'p> {
    let width = width.min(canvas.width());
    let height = height.min(canvas.height());
    let (x, y) = ((canvas.width() - width) / 2, (canvas.height() - height) / 2);
    let mut panel = canvas.part(x, y, width, height);
    panel.clear();
    panel.frame(title, theme.glyphs.ascii, theme.soft(), theme.strong());
    panel
}

/// Two right-aligned buttons; the focused one is reversed.
fn buttons(canvas: &mut Canvas<'_>, theme: Theme, y: u16, labels: [&str; 2], focus: Option<usize>) {
    let wide = |label: &str| super::widgets::width(label) as u16 + 4;
    let mut x = canvas.width().saturating_sub(wide(labels[0]) + wide(labels[1]) + 2 + 3);
    for (place, label) in labels.into_iter().enumerate() {
        let style = if focus == Some(place) { theme.selected() } else { theme.soft() };
        canvas.text(x, y, &format!("[ {label} ]"), style);
        x += wide(label) + 2;
    }
}
