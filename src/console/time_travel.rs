//! Going back in time: along the chart of the Overview, and through the log.

use seckill_engine::telemetry::log::Weight;
use seckill_model::message::{Label, text};

use super::{
    app::App,
    keymap::{Action, key_of},
    views::{View, activity, marks, until},
};

impl App {
    /// Pauses or resumes the display; snapshots are collected meanwhile.
    pub(super) fn freeze(&mut self) {
        self.display.frozen = !self.display.frozen;
        if self.display.frozen {
            if self.view == View::Overview && self.tables.overview.has_chart() {
                let [earlier, later, go_on] =
                    [Action::Earlier, Action::Later, Action::Freeze].map(key_of);
                self.note(text!("time-display-paused-and-step-through", earlier, later, go_on));
            }
        } else {
            self.tables.overview.let_go();
            self.show_newest();
        }
    }

    /// Moves to another moment; a running display is paused first.
    pub(super) fn scrub(&mut self, action: Action) {
        if !self.tables.overview.has_chart() {
            return self.note(Label("time-window-is-too-small"));
        }
        if !self.display.frozen {
            self.freeze();
        }
        let until = until(&self.display.shown);
        let later = matches!(action, Action::Later | Action::MarkAfter);
        if matches!(action, Action::Earlier | Action::Later) {
            if !self.tables.overview.step(later, until) {
                self.note(if later {
                    text!("time-this-is-latest-moment")
                } else {
                    text!("time-start-of-chart-press", zoom = key_of(Action::ZoomOut))
                });
            }
            return;
        }
        // Skips what is not worth stopping at.
        let times: Vec<_> = marks(&self.display.shown)
            .filter(|(_, line)| Weight::of(&line.act) > Weight::Notice)
            .map(|(at, _)| at)
            .collect();
        if !self.tables.overview.jump(later, until, &times) {
            self.note(if later {
                Label("time-no-later-command-or-alarm")
            } else {
                Label("time-no-earlier-command-or-alarm")
            });
        }
    }

    pub(super) fn turn_level(&mut self) {
        activity::turn_level(&mut self.tables.log);
        self.tables.log.settle(&self.display.shown);
        self.look();
    }
}
