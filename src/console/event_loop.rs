//! The event loop: input first, then snapshots, replies, the guide and a slow tick. It draws when something visible
//! changed, and never waits for the engine.

use std::{future::Future, io, time::Duration};

use crossterm::event::{Event, EventStream};
use futures::{StreamExt, stream::FuturesUnordered};
use seckill_model::Millis;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    Guide,
    app::{App, Course},
    export::Saver,
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

/// The signals that would end the program and leave the terminal in raw mode.
fn ends() -> io::Result<Vec<Signal>> {
    let ends = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::alarm(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    ends.into_iter().map(signal).collect()
}

/// Runs until the user quits, a signal arrives or the terminal closes; exports in progress are completed.
pub(super) async fn drive(
    app: &mut App,
    target: &mut impl DrawTarget,
    keyboard: &mut impl Keyboard,
    guide: Option<Guide>,
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
    guide: Option<Guide>,
    saver: &mut Saver,
) -> io::Result<()> {
    let mut ends = ends()?;
    // A stop signal from outside.
    let mut stop = signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
    let mut snapshots = Some(app.remote.snapshots.clone());
    let (mut pages, asked) = guide.map(|guide| (guide.pages, guide.asked)).unzip();
    if let Some(pages) = &mut pages {
        app.on_guide(pages.borrow_and_update().clone());
    }
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut drawn: Option<Instant> = None;
    let mut answering = false;
    loop {
        // Also between two inputs of a burst, such as a paste.
        let pause = if answering { KEY_FRAME } else { FRAME };
        let due = drawn.map_or_else(Instant::now, |at| at + pause);
        if app.terminal.dirty && due <= Instant::now() && target.is_idle() {
            app.terminal.dirty = false;
            // Otherwise it would be drawn over the shell to which a panic restored the terminal.
            target.recover()?;
            if let Err(error) = target.draw(at_present(app)) {
                // A closed terminal is a normal end.
                return if target.is_there() { Err(error) } else { Ok(()) };
            }
            drawn = Some(Instant::now());
            answering = false;
            continue;
        }
        let launch = app.director.due(app.display.now).map(|left| Instant::now() + left);
        tokio::select! {
            biased;
            event = keyboard.next() => match event {
                Some(Ok(event)) => {
                    at_present(app).on_event(&event);
                    answering = true;
                }
                // The terminal is gone: nothing can be reported.
                Some(Err(_)) | None => return Ok(()),
            },
            () = any(&mut ends) => return Ok(()),
            _ = stop.recv() => app.terminal.course = Course::Suspend,
            // The countdown of a launch shows another second, or ends.
            () = sleep_until(launch.unwrap_or(due)), if launch.is_some() => {
                let app = at_present(app);
                app.terminal.dirty = true;
                app.advance_launch();
            }
            snapshot = changed(&mut snapshots), if snapshots.is_some() => {
                if let Some(snapshot) = snapshot {
                    // The first snapshot is drawn at once.
                    if app.display.shown.seq == 0 {
                        drawn = None;
                    }
                    at_present(app).on_snapshot(snapshot);
                } else {
                    snapshots = None;
                    app.on_engine_gone();
                }
            }
            Some(answer) = app.work.answers.next() => at_present(app).on_answer(answer),
            Some(event) = app.views.lab.next() => at_present(app).on_lab_event(event),
            Some(pass) = app.views.attach.next() => at_present(app).on_pass(pass),
            Some(saved) = saver.next() => at_present(app).on_saved(saved),
            Some(page) = changed(&mut pages) => app.on_guide(page),
            _ = tick.tick() => {
                if !target.is_there() {
                    return Ok(());
                }
                if target.recover()? {
                    app.terminal.dirty = true;
                }
                at_present(app).on_tick();
            }
            () = drawable(target, due), if app.terminal.dirty => {}
        }
        saver.start(&mut app.terminal.exports);
        match std::mem::take(&mut app.terminal.course) {
            Course::GoOn => {}
            Course::NextPage => asked.iter().for_each(|asked| asked.send_modify(|it| *it += 1)),
            Course::Quit => return Ok(()),
            Course::Suspend => {
                keyboard.release();
                target.suspend()?;
                app.terminal.dirty = true;
            }
        }
    }
}

/// Sets the current time, by the clock of the servers, and returns the state.
fn at_present(app: &mut App) -> &mut App {
    app.display.now = Millis::now().plus(app.display.newest.clock_ahead_ms);
    app
}

/// Waits until the next frame is due and the terminal takes it. One that does not read delays nothing else.
async fn drawable(target: &mut impl DrawTarget, due: Instant) {
    sleep_until(due).await;
    target.idle().await;
}

/// Waits for any of these signals.
async fn any(signals: &mut [Signal]) {
    let mut all: FuturesUnordered<_> = signals.iter_mut().map(Signal::recv).collect();
    all.next().await;
}

/// The next value of a channel; `None` if the channel is closed or absent.
async fn changed<T: Clone>(channel: &mut Option<watch::Receiver<T>>) -> Option<T> {
    let receiver = channel.as_mut()?;
    receiver.changed().await.ok()?;
    Some(receiver.borrow_and_update().clone())
}
