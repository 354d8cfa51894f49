//! A connection that many tasks use at once, for commands that are independent of each other.

use std::sync::Arc;

use redis::{Cmd, FromRedisValue};
use tokio::sync::Mutex;

use super::{Connection, Redis, Result};

/// One connection for many tasks: their commands share its socket and are pipelined. A failure is reported to each task
/// whose command it concerns, and the next command connects again, once for all tasks. Cheap to clone.
///
/// Not for commands that block.
#[derive(Clone, Debug)]
pub struct SharedConnection(Arc<Mutex<Connection>>);

impl Redis {
    /// Returns a connection to share.
    pub fn shared_connection(&self) -> SharedConnection {
        SharedConnection(Arc::new(Mutex::new(self.connection())))
    }
}

impl SharedConnection {
    /// Runs one command on the server of `key`, which is the key of the command.
    pub async fn query<T: FromRedisValue>(&self, key: &str, cmd: &Cmd) -> Result<T> {
        let (mut connection, generation) = {
            // Held while connecting, so that tasks that come meanwhile wait for the same connection.
            let mut own = self.0.lock().await;
            (own.multiplexed(key).await?, own.generation(key))
        };
        match cmd.query_async(&mut connection).await {
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.0.lock().await.broke_then(key, generation, &error)),
        }
    }
}
