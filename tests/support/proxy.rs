//! A proxy between a store and its database server that cuts connections on demand.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use super::{PATIENCE, wait_until};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The direction in which a message is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The request is lost.
    Before,
    /// The server executes the request, and the reply is lost.
    After,
    /// The reply is truncated.
    Within,
}

impl Cut {
    pub const ALL: [Self; 3] = [Self::Before, Self::After, Self::Within];
}

/// The message to cut.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// The message with this number since the previous cut.
    Message(u32),
    /// The next COMMIT.
    Commit,
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<(Point, Cut)>,
    passed: u32,
    /// Whether each cut was at a COMMIT.
    taken: Vec<bool>,
}

impl Plan {
    fn cut(&mut self, message: &[u8]) -> Option<Cut> {
        let (point, cut) = *self.next.front()?;
        if is_ping(message) {
            return None;
        }
        // MySQL sends the bare word, PostgreSQL terminates it; READ COMMITTED ends differently.
        let commits = message.ends_with(b"COMMIT") || message.ends_with(b"COMMIT\0");
        self.passed += 1;
        let here = match point {
            Point::Message(number) => self.passed == number,
            Point::Commit => commits,
        };
        here.then(|| {
            self.next.pop_front();
            self.passed = 0;
            self.taken.push(commits);
            cut
        })
    }
}

/// Listens on a loopback port for the lifetime of its runtime.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    plan: Arc<Mutex<Plan>>,
    severed: watch::Sender<()>,
}

impl Proxy {
    /// Forwards to the server at `to`; cuts nothing.
    pub async fn before(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let shared = Arc::clone(&plan);
        let severed = watch::Sender::new(());
        let severing = severed.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(wire(client, to, Arc::clone(&shared), severing.clone()));
            }
        });
        Self { port, plan, severed }
    }

    /// The URL of a server through this proxy.
    pub fn url(&self, url: &str, port: u16) -> String {
        url.replace(&format!(":{port}/"), &format!(":{}/", self.port))
    }

    /// Cuts at the message with this number from now on; replaces earlier plans.
    pub fn cut_at(&self, number: u32, cut: Cut) {
        self.plan([(number, cut)]);
    }

    /// Cuts repeatedly, each this many messages after the previous cut.
    pub fn plan(&self, cuts: impl IntoIterator<Item = (u32, Cut)>) {
        let next = cuts.into_iter().map(|(number, cut)| (Point::Message(number), cut)).collect();
        *self.plan.lock().unwrap() = Plan { next, ..Plan::default() };
    }

    /// Cuts at the next COMMIT.
    pub fn cut_at_commit(&self, cut: Cut) {
        let next = VecDeque::from([(Point::Commit, cut)]);
        *self.plan.lock().unwrap() = Plan { next, ..Plan::default() };
    }

    /// Stops cutting; returns for each cut whether it was at a COMMIT.
    pub fn heal(&self) -> Vec<bool> {
        std::mem::take(&mut *self.plan.lock().unwrap()).taken
    }

    /// Closes all open connections, and waits until they are closed: otherwise the next request may still use one.
    pub async fn sever(&self) {
        self.severed.send_replace(());
        // One receiver is the one of the listener.
        wait_until(PATIENCE, "closed connections", async || self.severed.receiver_count() == 1)
            .await;
    }

    /// Number of remaining cuts.
    pub fn to_come(&self) -> usize {
        self.plan.lock().unwrap().next.len()
    }
}

/// The pool pings returned connections at unpredictable times, so pings are not counted.
fn is_ping(message: &[u8]) -> bool {
    message == [1, 0, 0, 0, 14] || message == b"S\0\0\0\x04"
}

/// Forwards one connection until either side closes it or it is cut.
async fn wire(
    mut client: TcpStream,
    to: u16,
    plan: Arc<Mutex<Plan>>,
    mut severed: watch::Receiver<()>,
) {
    severed.mark_unchanged();
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)).await else { return };
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut cut = None;
    loop {
        tokio::select! {
            _ = severed.changed() => return,
            n = client.read(&mut asked) => {
                let Ok(n @ 1..) = n else { return };
                cut = cut.or_else(|| plan.lock().unwrap().cut(&asked[..n]));
                if cut == Some(Cut::Before) || server.write_all(&asked[..n]).await.is_err() {
                    return;
                }
            }
            n = server.read(&mut answered) => {
                let Ok(n @ 1..) = n else { return };
                let passed = match cut {
                    None => n,
                    Some(Cut::Within) => n / 2,
                    // Replied, so it was executed.
                    Some(_) => 0,
                };
                if client.write_all(&answered[..passed]).await.is_err() || cut.is_some() {
                    return;
                }
            }
        }
    }
}
