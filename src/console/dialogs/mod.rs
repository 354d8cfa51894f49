//! Dialogs over a view: questions, forms, the palette, the help screen.
//!
//! A dialog holds its subject as data. It has no effects and no access to a Remote.

mod confirm;
mod export_menu;
mod form;
mod group_form;
mod help;
mod launch_form;
mod palette;
mod rush_form;
mod sale_form;

pub(crate) use confirm::{Confirm, Intent};
pub(crate) use export_menu::ExportMenu;
pub(crate) use form::{Form, MOST, draw_input, is_cut, typed};
pub(crate) use group_form::GroupForm;
pub(crate) use help::Help;
pub(crate) use launch_form::LaunchForm;
pub(crate) use palette::{Offer, Palette};
pub(crate) use rush_form::RushForm;
pub(crate) use sale_form::SaleForm;

use seckill_model::VoucherId;
use tui_input::Input;

use super::{keymap::Context, theme::Theme, widgets::Canvas};

/// The open dialog.
#[derive(Debug)]
pub(crate) enum Dialog {
    Confirm(Confirm),
    Sale(SaleForm),
    Rush(RushForm),
    Launch(LaunchForm),
    Group(GroupForm),
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
            _ if self.form().is_some_and(Form::is_on_button) => Context::Button,
            Self::Sale(_) | Self::Rush(_) | Self::Group(_) | Self::Launch(_) => Context::Form,
            // Both are lists with a cursor.
            Self::Palette(_) | Self::Export(_) => Context::Palette,
            Self::Help(_) => Context::Help,
        }
    }

    /// The existing sale that it is about, if any.
    pub(crate) fn sale(&self) -> Option<VoucherId> {
        match self {
            Self::Confirm(confirm) => confirm.sale(),
            Self::Rush(rush) => Some(rush.voucher()),
            _ => None,
        }
    }

    /// Its fields and buttons, if any.
    pub(crate) fn form(&self) -> Option<&Form> {
        match self {
            Self::Sale(sale) => Some(&sale.form),
            Self::Rush(rush) => Some(&rush.form),
            Self::Group(group) => Some(&group.form),
            Self::Launch(launch) => Some(&launch.form),
            _ => None,
        }
    }

    /// The focused text input.
    pub(crate) fn input(&self) -> Option<&Input> {
        match self {
            Self::Confirm(confirm) => confirm.input(),
            Self::Sale(sale) => sale.form.input(),
            Self::Palette(palette) => Some(palette.input()),
            _ => self.form()?.input(),
        }
    }

    /// Draws over the view; returns the cursor position, if any.
    pub(crate) fn draw(&mut self, canvas: &mut Canvas<'_>, theme: Theme) -> Option<(u16, u16)> {
        match self {
            Self::Confirm(confirm) => confirm.draw(canvas, theme, str::to_owned),
            Self::Sale(sale) => sale.form.draw(canvas, theme, &[], &[]),
            Self::Rush(rush) => rush.form.draw(canvas, theme, &rush.notes(), &rush.widest()),
            Self::Launch(launch) => launch.form.draw(canvas, theme, &[], &[]),
            Self::Group(group) => group.form.draw(canvas, theme, &group.notes(), &[]),
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
