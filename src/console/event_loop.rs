//! The event loop: input first, then snapshots, replies, the guide and a slow tick. It draws when something visible
//! changed, and never waits for the engine.

use std::{future::Future, io, sync::Arc, time::Duration};

use crossterm::event::{Event, EventStream};
use futures::{StreamExt, stream::FuturesUnordered};
use seckill_engine::Snapshot;
use seckill_model::Millis;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    Answer,
    app::{App, Course},
    export::{Saved, Saver},
    guide_banner::GuidePage,
    terminal::DrawTarget,
};

/// At most 30 frames a second.
const FRAME: Duration = Duration::from_millis(33);
/// The effect of a key is drawn sooner, but not for every key of a burst.
const KEY_FRAME: Duration = Duration::from_millis(8);
/// Ages increase once a second.
const TICK: Duration = Duration::from_secs(1);

/// The source of keys, which can be released and, in tests, scripted.
pub(super) trait Keyboard {
    /// The next event; `None` at the end of input.
    fn next(&mut self) -> impl Future<Output = Option<io::Result<Event>>>;

    /// Stops reading, so that the shell gets the input.
    fn release(&mut self) {}
}

/// The terminal's keyboard; it reads only on demand.
#[derive(Default)]
pub(super) struct Tty(Option<EventStream>);

impl Keyboard for Tty {
    async fn next(&mut self) -> Option<io::Result<Event>> {
        self.0.get_or_insert_default().next().await
    }

    fn release(&mut self) {
        self.0 = None;
    }
}

/// Signals that would end or stop the program and leave the terminal in raw mode.
struct Signals {
    ends: Vec<Signal>,
    stop: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let ends = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
            SignalKind::quit(),
            SignalKind::alarm(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        Ok(Self {
            ends: ends.into_iter().map(signal).collect::<io::Result<_>>()?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
        })
    }

    async fn next(&mut self) -> Woken {
        let mut ends: FuturesUnordered<_> = self.ends.iter_mut().map(Signal::recv).collect();
        tokio::select! {
            _ = ends.next() => Woken::End,
            _ = self.stop.recv() => Woken::Stop,
        }
    }
}

/// What woke the loop.
enum Woken {
    Input(Option<io::Result<Event>>),
    End,
    /// A stop signal from outside.
    Stop,
    Snapshot(Option<Arc<Snapshot>>),
    Answer(Box<Answer>),
    Saved(Saved),
    GuidePage(Option<GuidePage>),
    /// The countdown of a launch shows another second, or ends.
    Launch,
    Tick,
    Frame,
}

/// Runs until the user quits, a signal arrives or the terminal closes; exports in progress are completed.
pub(super) async fn drive(
    app: &mut App,
    target: &mut impl DrawTarget,
    keyboard: &mut impl Keyboard,
    guide: Option<watch::Receiver<GuidePage>>,
) -> io::Result<()> {
    let mut saver = Saver::default();
    let ended = turn(app, target, keyboard, guide, &mut saver).await;
    saver.finish().await;
    ended
}

async fn turn(
    app: &mut App,
    target: &mut impl DrawTarget,
    keyboard: &mut impl Keyboard,
    guide: Option<watch::Receiver<GuidePage>>,
    saver: &mut Saver,
) -> io::Result<()> {
    let mut signals = Signals::new()?;
    let mut snapshots = Some(app.remote.snapshots.clone());
    let mut guide = guide;
    if let Some(guide) = &mut guide {
        app.on_guide(guide.borrow_and_update().clone());
    }
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut drawn: Option<Instant> = None;
    let mut answering = false;
    loop {
        // Also between two inputs of a burst, such as a paste.
        let pause = if answering { KEY_FRAME } else { FRAME };
        let due = drawn.map_or_else(Instant::now, |at| at + pause);
        if app.terminal.dirty && due <= Instant::now() {
            app.terminal.dirty = false;
            app.display.now = Millis::now().plus(app.display.newest.clock_ahead_ms);
            // Otherwise it would be drawn over the shell to which a panic restored the terminal.
            target.recover()?;
            if let Err(error) = target.draw(app) {
                // A closed terminal is a normal end.
                return if target.is_there() { Err(error) } else { Ok(()) };
            }
            drawn = Some(Instant::now());
            answering = false;
            continue;
        }
        let launch = app.launch_due().map(|left| Instant::now() + left);
        let woken = tokio::select! {
            biased;
            event = keyboard.next() => Woken::Input(event),
            signalled = signals.next() => signalled,
            () = at(launch) => Woken::Launch,
            snapshot = changed(&mut snapshots) => Woken::Snapshot(snapshot),
            answer = app.next_answer() => Woken::Answer(Box::new(answer)),
            saved = saver.next() => Woken::Saved(saved),
            page = changed(&mut guide) => Woken::GuidePage(page),
            _ = tick.tick() => Woken::Tick,
            () = sleep_until(due), if app.terminal.dirty => Woken::Frame,
        };
        app.display.now = Millis::now().plus(app.display.newest.clock_ahead_ms);
        match woken {
            Woken::Input(Some(Ok(event))) => {
                app.on_event(&event);
                answering = true;
            }
            // The terminal is gone: nothing can be reported.
            Woken::Input(Some(Err(_)) | None) | Woken::End => return Ok(()),
            Woken::Snapshot(Some(snapshot)) => {
                // The first snapshot is drawn at once.
                if app.display.shown.seq == 0 {
                    drawn = None;
                }
                app.on_snapshot(snapshot);
            }
            Woken::Snapshot(None) => {
                snapshots = None;
                app.on_engine_gone();
            }
            Woken::Answer(answer) => app.on_answer(*answer),
            Woken::Saved(saved) => app.on_saved(saved),
            Woken::GuidePage(Some(page)) => app.on_guide(page),
            Woken::GuidePage(None) => guide = None,
            Woken::Tick => {
                if !target.is_there() {
                    return Ok(());
                }
                if target.recover()? {
                    app.terminal.dirty = true;
                }
                app.on_tick();
            }
            Woken::Launch => app.on_launch_due(),
            Woken::Stop => app.terminal.course = Course::Suspend,
            Woken::Frame => {}
        }
        saver.start(&mut app.terminal.exports);
        match std::mem::take(&mut app.terminal.course) {
            Course::GoOn => {}
            Course::Quit => return Ok(()),
            Course::Suspend => {
                keyboard.release();
                target.suspend()?;
                app.terminal.dirty = true;
            }
        }
    }
}

/// Resolves at that moment; never if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The next value of a channel; `None` when it is closed. Pending forever while there is no channel.
async fn changed<T: Clone>(channel: &mut Option<watch::Receiver<T>>) -> Option<T> {
    match channel {
        Some(receiver) => {
            receiver.changed().await.ok()?;
            Some(receiver.borrow_and_update().clone())
        }
        None => std::future::pending().await,
    }
}
