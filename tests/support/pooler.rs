//! A connection pooler before PostgreSQL, like `PgBouncer`: it logs clients in by itself, and lends them connections to the
//! server.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

/// For how long a client has a connection to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    /// Until it disconnects; each has a new one.
    Session,
    /// Until it disconnects; the next one has the connection that was returned last, as it was left.
    Uncleaned,
    /// For a transaction; the next one has the connection that was returned last.
    Newest,
    /// For a transaction; the next one has the connection that was returned first.
    Oldest,
    /// For a transaction; the next one has the connection of its last transaction.
    Same,
}

/// A connection to the server, and the client that had it last.
type Lent = (u32, TcpStream);

/// A pooler that accepts connections until its test ends.
#[derive(Debug)]
pub struct Pooler {
    port: u16,
    idle: Arc<Mutex<Vec<Lent>>>,
}

impl Pooler {
    /// Starts one before the server at `port`, whose clients are the user `root` of the database `name`.
    pub async fn before(port: u16, name: &str, mode: PoolMode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pooler = Self { port: listener.local_addr().unwrap().port(), idle: Arc::default() };
        let (idle, name) = (Arc::clone(&pooler.idle), name.to_owned());
        tokio::spawn(async move {
            let clients = AtomicU32::new(1);
            while let Ok((client, _)) = listener.accept().await {
                let number = clients.fetch_add(1, Ordering::Relaxed);
                let (idle, name) = (Arc::clone(&idle), name.clone());
                // A client that is gone ends its task.
                tokio::spawn(async move { serve(client, number, port, &name, mode, &idle).await });
            }
        });
        pooler
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The text that a query returns in each idle session of the server.
    pub async fn in_each_session(&self, query: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (_, server) in self.idle.lock().await.iter_mut() {
            let mut request = b"Q".to_vec();
            request.extend((query.len() as u32 + 5).to_be_bytes());
            request.extend(query.as_bytes());
            request.push(0);
            server.write_all(&request).await.unwrap();
            loop {
                match message(server).await.unwrap() {
                    // The number of columns and the length of the first precede it.
                    row if row[0] == b'D' => {
                        texts.push(String::from_utf8_lossy(&row[11..]).into_owned());
                    }
                    end if end[0] == b'Z' => break,
                    _ => {}
                }
            }
        }
        texts
    }
}

/// A message with its type and its length.
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Vec<u8>> {
    let mut whole = vec![0; 5];
    stream.read_exact(&mut whole).await?;
    let length = u32::from_be_bytes([whole[1], whole[2], whole[3], whole[4]]) as usize;
    whole.resize(1 + length, 0);
    stream.read_exact(&mut whole[5..]).await?;
    Ok(whole)
}

/// Logs in to the server, which asks for no password.
async fn log_in(port: u16, name: &str) -> std::io::Result<TcpStream> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    let words = format!("user\0root\0database\0{name}\0\0");
    server.write_u32(words.len() as u32 + 8).await?;
    server.write_u32(0x0003_0000).await?;
    server.write_all(words.as_bytes()).await?;
    while message(&mut server).await?[0] != b'Z' {}
    Ok(server)
}

/// Passes on what both say until the client disconnects; the server does not learn that.
async fn relay(client: &mut TcpStream, server: &mut TcpStream) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let requests = async {
        loop {
            match message(&mut from_client).await {
                Ok(request) if request[0] != b'X' => to_server.write_all(&request).await?,
                _ => return Ok(()),
            }
        }
    };
    tokio::select! {
        end = requests => end,
        end = tokio::io::copy(&mut from_server, &mut to_client) => end.map(drop),
    }
}

async fn serve(
    mut client: TcpStream,
    number: u32,
    port: u16,
    name: &str,
    mode: PoolMode,
    idle: &Mutex<Vec<Lent>>,
) -> std::io::Result<()> {
    loop {
        let length = client.read_u32().await? as usize;
        let mut words = vec![0; length - 4];
        client.read_exact(&mut words).await?;
        if length == 8 {
            // It encrypts no connections.
            client.write_all(b"N").await?;
            continue;
        }
        if String::from_utf8_lossy(&words).contains("\0options\0") {
            let error = "SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
            client.write_u8(b'E').await?;
            client.write_u32(error.len() as u32 + 4).await?;
            return client.write_all(error.as_bytes()).await;
        }
        break;
    }
    client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await?;
    if mode == PoolMode::Session {
        let mut server = log_in(port, name).await?;
        return copy_bidirectional(&mut client, &mut server).await.map(drop);
    }
    if mode == PoolMode::Uncleaned {
        let newest = idle.lock().await.pop();
        let mut server = match newest {
            Some((_, server)) => server,
            None => log_in(port, name).await?,
        };
        relay(&mut client, &mut server).await?;
        idle.lock().await.push((number, server));
        return Ok(());
    }
    let mut lent: Option<TcpStream> = None;
    loop {
        let request = message(&mut client).await?;
        if request[0] == b'X' {
            return Ok(());
        }
        if lent.is_none() {
            let mut idle = idle.lock().await;
            let at = match mode {
                PoolMode::Oldest => (!idle.is_empty()).then_some(0),
                PoolMode::Same => idle.iter().position(|(last, _)| *last == number),
                _ => idle.len().checked_sub(1),
            };
            lent = at.map(|at| idle.remove(at).1);
        }
        let server = match &mut lent {
            Some(server) => server,
            None => lent.insert(log_in(port, name).await?),
        };
        server.write_all(&request).await?;
        if !matches!(request[0], b'Q' | b'S') {
            continue;
        }
        let end = loop {
            let reply = message(server).await?;
            if reply[0] == b'Z' {
                break reply;
            }
            client.write_all(&reply).await?;
        };
        if end.last() == Some(&b'I')
            && let Some(server) = lent.take()
        {
            // Before the client knows that its transaction is over.
            idle.lock().await.push((number, server));
        }
        client.write_all(&end).await?;
    }
}
