//! A proxy before a database or Redis server that cuts connections, or delays a reply, on demand.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{PATIENCE, wait_until};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
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
    /// The server executes the request, and the reply comes after this time.
    Late(Duration),
    /// The request is lost, and for the server the connection stays open until it is severed, as that of a process that
    /// was stopped.
    Held,
}

impl Cut {
    pub const ALL: [Self; 3] = [Self::Before, Self::After, Self::Within];
}

/// The message to cut.
#[derive(Clone, Debug)]
enum Point {
    /// The message with this number since the previous cut.
    Message(u32),
    /// The next COMMIT.
    Commit,
    /// The next message with these bytes.
    Containing(String),
}

#[derive(Debug, Default)]
struct Plan {
    next: VecDeque<(Point, Cut)>,
    /// Each message with these bytes, beside `next`.
    each: Option<(String, Cut)>,
    passed: u32,
    /// Whether each cut was at a COMMIT.
    taken: Vec<bool>,
}

impl Plan {
    fn cut(&mut self, message: &[u8]) -> Option<Cut> {
        if let Some((text, cut)) = &self.each
            && contains(message, text)
        {
            return Some(*cut);
        }
        let (point, cut) = self.next.front()?;
        let cut = *cut;
        if is_ping(message) {
            return None;
        }
        // MySQL sends the bare word, PostgreSQL terminates it; READ COMMITTED ends differently.
        let commits = message.ends_with(b"COMMIT") || message.ends_with(b"COMMIT\0");
        self.passed += 1;
        let here = match point {
            Point::Message(number) => self.passed == *number,
            Point::Commit => commits,
            Point::Containing(text) => contains(message, text),
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
    muted: watch::Sender<bool>,
}

impl Proxy {
    /// Forwards to the server at this port; cuts nothing.
    pub async fn before(to: u16) -> Self {
        Self::forwarding(Target::Port(to)).await
    }

    /// Forwards to the server at this socket; cuts nothing.
    pub async fn before_socket(to: &Path) -> Self {
        Self::forwarding(Target::Socket(to.to_owned())).await
    }

    async fn forwarding(to: Target) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let plan = Arc::new(Mutex::new(Plan::default()));
        let shared = Arc::clone(&plan);
        let severed = watch::Sender::new(());
        let severing = severed.subscribe();
        let muted = watch::Sender::new(false);
        let muting = muted.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (plan, severed) = (Arc::clone(&shared), severing.clone());
                let muted = muting.clone();
                match &to {
                    Target::Port(port) => {
                        let server = TcpStream::connect(("127.0.0.1", *port)).await;
                        tokio::spawn(wire(client, server, plan, severed, muted));
                    }
                    Target::Socket(path) => {
                        let server = UnixStream::connect(path).await;
                        tokio::spawn(wire(client, server, plan, severed, muted));
                    }
                }
            }
        });
        Self { port, plan, severed, muted }
    }

    /// The URL of a server through this proxy. Messages cannot be read from encrypted connections, which newer servers
    /// of MariaDB and MySQL offer by default.
    pub fn url(&self, url: &str, port: u16) -> String {
        let url = url.replace(&format!(":{port}/"), &format!(":{}/", self.port));
        if url.starts_with("mysql:") { format!("{url}?ssl-mode=disabled") } else { url }
    }

    /// The URL of a Redis server through this proxy.
    pub fn redis_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Cuts at the next message with these bytes.
    pub fn cut_at_text(&self, text: &str, cut: Cut) {
        self.cut_at_texts([(text, cut)]);
    }

    /// Cuts at the next message with these bytes, then at the next one after it with those, and so on.
    pub fn cut_at_texts<'a>(&self, cuts: impl IntoIterator<Item = (&'a str, Cut)>) {
        let point = |text: &str| Point::Containing(text.to_owned());
        let next = cuts.into_iter().map(|(text, cut)| (point(text), cut)).collect();
        *self.plan.lock().unwrap() = Plan { next, ..Plan::default() };
    }

    /// Cuts at each message with these bytes.
    pub fn cut_at_each(&self, text: &str, cut: Cut) {
        let each = Some((text.to_owned(), cut));
        *self.plan.lock().unwrap() = Plan { each, ..Plan::default() };
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

    /// From now on requests reach the server, and no reply comes back.
    pub fn mute(&self) {
        self.muted.send_replace(true);
    }

    /// Closes the connections whose replies were lost; new ones work.
    pub fn unmute(&self) {
        self.muted.send_replace(false);
    }

    /// Closes all open connections, as a proxy does with idle ones; clients that connect again are served.
    pub fn drop_connections(&self) {
        self.severed.send_replace(());
    }

    /// Closes all open connections, and waits until they are closed: otherwise the next request may still use one.
    pub async fn sever(&self) {
        self.drop_connections();
        // One receiver is the one of the listener.
        wait_until(PATIENCE, "closed connections", async || self.severed.receiver_count() == 1)
            .await;
    }

    /// Number of remaining cuts.
    pub fn to_come(&self) -> usize {
        self.plan.lock().unwrap().next.len()
    }
}

#[derive(Clone, Debug)]
enum Target {
    Port(u16),
    Socket(PathBuf),
}

fn contains(message: &[u8], text: &str) -> bool {
    message.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The pool pings returned connections at unpredictable times, so pings are not counted.
fn is_ping(message: &[u8]) -> bool {
    message == [1, 0, 0, 0, 14] || message == b"S\0\0\0\x04"
}

/// Forwards one connection until either side closes it or it is cut.
async fn wire(
    mut client: TcpStream,
    server: std::io::Result<impl AsyncRead + AsyncWrite + Unpin>,
    plan: Arc<Mutex<Plan>>,
    mut severed: watch::Receiver<()>,
    mut muted: watch::Receiver<bool>,
) {
    severed.mark_unchanged();
    muted.mark_unchanged();
    let Ok(mut server) = server else { return };
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut cut = None;
    loop {
        tokio::select! {
            _ = severed.changed() => return,
            _ = muted.changed() => {
                if !*muted.borrow_and_update() {
                    return;
                }
            }
            n = client.read(&mut asked) => {
                let Ok(n @ 1..) = n else { return };
                cut = cut.or_else(|| plan.lock().unwrap().cut(&asked[..n]));
                if cut == Some(Cut::Held) {
                    let _ = severed.changed().await;
                    return;
                }
                if cut == Some(Cut::Before) || server.write_all(&asked[..n]).await.is_err() {
                    return;
                }
            }
            n = server.read(&mut answered) => {
                let Ok(n @ 1..) = n else { return };
                if *muted.borrow() {
                    continue;
                }
                if let Some(Cut::Late(by)) = cut.take_if(|cut| matches!(cut, Cut::Late(_))) {
                    tokio::time::sleep(by).await;
                }
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
