//! The state of the console: what is shown, what is open, what waits for an answer.
//!
//! Events come in here and change it; nothing in here waits, draws, or knows the terminal.

use std::{path::PathBuf, sync::Arc};

use crossterm::event::{Event, KeyEvent, KeyEventKind};
use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use jiff::tz::TimeZone;
use seckill_engine::{
    EngineError,
    command::{Command, LetterScope, Remote, Reply},
    plan::Plan,
    telemetry::{
        Snapshot,
        snapshot::{LetterLine, PendingLine},
    },
};
use seckill_model::{EntryId, Millis, NewSale, OrderId};
use tokio::sync::{oneshot::error::RecvError, watch};

use super::{
    dialogs::{Dialog, SaleForm},
    launch::Director,
    form_drafts::Drafts,
    export::Export,
    lag_trend::Flow,
    frame_writer::Drawn,
    keymap::{self, Context, Key},
    planning::Planning,
    presenter::{Presenter, is_gone},
    active_sale::Selling,
    status::{Status, Tone},
    guide_banner::Story,
    optimistic_jobs::Switched,
    text::{
        self,
        letters::{About, Settling},
    },
    theme::Theme,
    views::{
        Leases, LedgerState, ListState, LogState, OrdersState, OverviewState, PagedState,
        SalesState, StreamState, Users, View, is_stale, is_too_small,
    },
};

/// An act with what came of it.
pub(crate) type Answer = (Command, Result<Result<Reply, EngineError>, RecvError>);

/// What the loop does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Course {
    #[default]
    GoOn,
    Suspend,
    Quit,
}

pub(crate) struct App {
    pub(super) remote: Remote,
    /// The picture on the screen.
    pub(crate) shown: Arc<Snapshot>,
    /// The newest picture; the same one unless the screen is frozen.
    pub(crate) newest: Arc<Snapshot>,
    pub(crate) frozen: bool,
    pub(crate) view: View,
    pub(crate) presenter: Presenter,
    pub(crate) selling: Selling,
    pub(crate) director: Director,
    pub(crate) overview: OverviewState,
    pub(crate) sales: SalesState,
    pub(crate) pending: PagedState<PendingLine>,
    pub(crate) letters: PagedState<LetterLine>,
    /// Dead letters that are being counted, for a question about this.
    pub(super) counting: Option<(Settling, LetterScope, About)>,
    pub(crate) stream: StreamState,
    pub(crate) orders: OrdersState,
    /// Whether users are told, in whichever view.
    pub(crate) users: Users,
    /// The order whose way is being looked for.
    pub(super) tracing: Option<OrderId>,
    pub(crate) locks: ListState,
    pub(crate) leases: Leases,
    pub(crate) jobs: ListState,
    pub(crate) ledger: LedgerState,
    pub(crate) log: LogState,
    pub(crate) dialog: Option<Dialog>,
    /// A form that was left or is asked about: nothing typed is lost.
    pub(super) draft: Option<SaleForm>,
    /// A sale that was sent and is not answered yet, with its form.
    pub(super) creating: Option<(NewSale, SaleForm)>,
    /// The plan that was asked about last, with the marks that it was made for.
    pub(super) planned: Option<(Plan, Vec<EntryId>)>,
    pub(super) planning: Planning,
    /// Forms that were left on the way to their question.
    pub(super) drafts: Drafts,
    /// Jobs of which an answer says more than the pictures.
    pub(super) switched: Switched,
    /// The filter of the current view takes the keys.
    pub(crate) filtering: bool,
    pub(crate) status: Status,
    pub(crate) story: Story,
    pub(crate) lag: Flow,
    pub(crate) now: Millis,
    pub(crate) theme: Theme,
    pub(crate) zone: TimeZone,
    pub(super) answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    pub(crate) course: Course,
    /// The window is too small to show anything, so that no key but those that leave means anything.
    pub(crate) unseen: bool,
    pub(super) dirty: bool,
    /// What went to the terminal so far.
    pub(crate) drawn: Drawn,
    /// Exports that wait to be written.
    pub(super) exports: Vec<Export>,
    pub(super) export_dir: Option<PathBuf>,
    /// Columns and rows of the terminal, as it was drawn on last.
    pub(crate) size: (u16, u16),
    /// The mouse is ours.
    pub(crate) mouse: bool,
    /// Cells of the line of tabs, and the view that each leads to.
    pub(crate) tabs: Vec<(std::ops::Range<u16>, View)>,
    /// Text that the terminal is to take.
    pub(crate) clipboard: Option<String>,
    /// Between the console and the terminal stands tmux, which keeps copies to itself as a rule.
    pub(crate) in_tmux: bool,
    /// Names that were asked for in the palette, the last one first.
    pub(super) asked: Vec<keymap::Action>,
}

impl App {
    pub(crate) fn new(remote: Remote, theme: Theme, zone: TimeZone, now: Millis) -> Self {
        let first = remote.snapshots.borrow().clone();
        let mut app = Self {
            remote,
            shown: Arc::default(),
            newest: Arc::default(),
            frozen: false,
            view: View::Overview,
            presenter: Presenter::default(),
            selling: Selling::default(),
            director: Director::default(),
            overview: OverviewState::default(),
            sales: SalesState::default(),
            pending: PagedState::default(),
            letters: PagedState::default(),
            counting: None,
            stream: StreamState::default(),
            orders: OrdersState::default(),
            users: Users::default(),
            tracing: None,
            locks: ListState::default(),
            leases: Leases::default(),
            jobs: ListState::default(),
            ledger: LedgerState::default(),
            log: LogState::default(),
            dialog: None,
            draft: None,
            creating: None,
            planned: None,
            planning: Planning::default(),
            drafts: Drafts::default(),
            switched: Switched::default(),
            filtering: false,
            status: Status::default(),
            story: Story::default(),
            lag: Flow::default(),
            now,
            theme,
            zone,
            answers: FuturesUnordered::new(),
            course: Course::default(),
            unseen: false,
            dirty: true,
            drawn: Drawn::default(),
            exports: Vec::new(),
            export_dir: None,
            size: (0, 0),
            mouse: false,
            tabs: Vec::new(),
            clipboard: None,
            in_tmux: false,
            asked: Vec::new(),
        };
        app.on_snapshot(first);
        app
    }

    /// The time that the picture is looked at: a frozen one stands still.
    pub(crate) fn seen(&self) -> Millis {
        if self.frozen { self.shown.taken } else { self.now }
    }

    /// Where pictures come from.
    pub(super) fn pictures(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.remote.snapshots.clone()
    }

    /// All of the screen is drawn again.
    pub(super) fn redraw(&mut self) {
        self.dirty = true;
    }

    /// Whether something visible changed since the last call.
    pub(crate) fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The next answer of the engine; never, while none is outstanding.
    pub(crate) async fn next_answer(&mut self) -> Answer {
        match self.answers.next().await {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn on_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.newest = self.known_better(snapshot);
        self.presenter.look(&self.newest);
        if !self.frozen {
            self.show_newest();
        }
        self.settle_launch();
        self.follow_plan();
    }

    /// Swaps the picture; selections and marks follow what they are about.
    pub(super) fn show_newest(&mut self) {
        self.shown = Arc::clone(&self.newest);
        self.dirty = true;
        let lag = self.shown.stream.as_ref().filter(|_| self.shown.redis.up);
        self.lag.push(self.shown.taken, lag.and_then(|stream| stream.lag));
        self.status.settle_rush(|id| self.shown.sale(id).is_some_and(is_gone));
        if let Some(gone) = self.sales.settle(&self.shown) {
            self.note(text::sale_gone(gone));
        }
        if self.selling.look(&self.shown, self.sales.chosen) {
            self.leave_what_is_gone();
        }
        self.locks.settle(&self.shown.locks.locks);
        self.leases.look(&self.shown);
        self.jobs.settle(&self.shown.jobs);
        self.ledger.settle(&self.shown.ledger.lines);
        self.log.settle(&self.shown);
        let pending = self.pending.settle(&self.shown);
        let letters = self.letters.settle(&self.shown);
        let stream = self.stream.settle(&self.shown);
        let orders = self.orders.settle(&self.shown);
        if pending.turned || letters.turned || stream || orders {
            self.look();
        }
        self.trace_order();
        if pending.unordered || letters.unordered {
            self.note(&*text::conventions::ORDER_DROPPED);
        }
        // While an act is under way marks vanish because it does its work.
        if self.answers.is_empty() {
            if pending.marks_gone > 0 {
                self.note(text::marks_gone(pending.marks_gone));
            }
            if letters.marks_gone > 0 {
                self.note(text::letters::marks_gone(letters.marks_gone));
            }
        }
    }

    /// No picture will come any more.
    pub(crate) fn on_engine_gone(&mut self) {
        self.status.failure(text::commands::ENGINE_GONE.to_owned());
        self.dirty = true;
    }

    pub(crate) fn on_story(&mut self, story: Story) {
        self.dirty |= self.story != story;
        self.story = story;
    }

    /// The slow tick: ages grow, notes pass.
    pub(crate) fn on_tick(&mut self) {
        let expired = self.status.expire(self.now);
        self.dirty |= expired || self.frozen || self.shows_time();
    }

    /// Whether the screen shows something that changes with the clock alone.
    fn shows_time(&self) -> bool {
        let picture = &self.shown;
        let windows = picture.sales.iter().any(|sale| sale.begin.is_some() || sale.end.is_some());
        let leases = self.view == View::Locks && self.leases.any();
        windows || leases || is_stale(&picture.redis, self.now) || is_stale(&picture.sql, self.now)
    }

    pub(crate) fn on_event(&mut self, event: &Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(key, event),
            Event::Paste(_) if !self.unseen => {
                self.dirty = true;
                self.type_in(event);
            }
            Event::Resize(width, height) => {
                self.dirty = true;
                // A key that follows at once is for the new window.
                self.unseen = is_too_small(*width, *height);
            }
            Event::Mouse(event) if !self.unseen => self.on_mouse(*event),
            _ => {}
        }
    }

    fn on_key(&mut self, key: &KeyEvent, event: &Event) {
        self.dirty = true;
        self.status.key_pressed();
        let pressed = Key::of(key);
        if self.unseen {
            if let Some(action) = keymap::lookup(Context::Always, pressed) {
                self.act(action);
            }
            return;
        }
        if let Some(Dialog::Confirm(confirm)) = &mut self.dialog
            && confirm.takes_digit(key)
        {
            return;
        }
        let key = pressed;
        let context = self.context();
        if let Some(action) = keymap::lookup(context, key) {
            self.act(action);
            self.trace_order();
        } else if matches!(context, Context::Form | Context::Palette | Context::Filter) {
            self.type_in(event);
        } else {
            let meanings = keymap::elsewhere(context, key);
            self.note(if meanings.is_empty() || self.dialog.is_some() {
                text::commands::does_nothing(&key.label(), context)
            } else if context == Context::Presenter {
                text::presenter::in_the_views(&key.label())
            } else {
                text::commands::works_elsewhere(&key.label(), &meanings)
            });
        }
    }

    /// Where keys go now.
    pub(crate) fn context(&self) -> Context {
        match &self.dialog {
            Some(dialog) => dialog.context(),
            None if self.filtering => Context::Filter,
            None => self.place(),
        }
    }

    /// What is shown, whatever lies over it.
    pub(super) fn place(&self) -> Context {
        if self.presenter.on { Context::Presenter } else { self.view.context() }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.status.note(Tone::Note, text, self.now);
    }
}
