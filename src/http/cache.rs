//! Vouchers read through Redis, so that a rush of readers does not reach SQL.
//!
//! What does not exist is cached as well (penetration); one loader at a time reads SQL, while others get the stale value
//! (breakdown); entries expire at different times (avalanche). The loader is a task of its own, which ends by the time limits
//! of Redis and SQL: a reader who leaves, or whose time is up, keeps no lock that others would wait for. A change removes the entry and the lock of a loader that
//! has begun before it (`recovery::delivery` of the engine), so that no old value is stored after it. While the server of
//! an entry is unreachable, this process keeps the value for a moment: the other shards of the sale sell on.

use std::time::{Duration, Instant};

use moka::future::Cache as LocalCache;
use redis::{cmd, pipe};
use seckill_model::reason::reason;
use seckill_redis::{SharedConnection, keys::CacheKeys, scripts};
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::answer::Refusal;

/// How long a value is fresh, at least and at most.
const FRESH_MS: std::ops::Range<u64> = 10_000..15_000;
/// The same for a null marker: what does not exist may be created.
const NULL_FRESH_MS: std::ops::Range<u64> = 2_000..3_000;
/// How long a value is served after that, while it is loaded again.
const STALE_MS: u64 = 60_000;
/// A loader that takes longer is replaced by another one.
const LOADS_WITHIN_MS: u64 = 3_000;
/// How long a reader waits for a value that has never been loaded.
const WAITS_FOR: Duration = Duration::from_secs(4);
/// How long this process keeps a value that was loaded without Redis, and how many of them.
const KEPT_FOR: Duration = Duration::from_secs(1);
const KEPT: u64 = 65_536;
/// Interval between its looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Reads through Redis. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    redis: SharedConnection,
    /// Values that were loaded without Redis, as JSON by entry; each is loaded by one request at a time.
    kept: LocalCache<String, String>,
    /// Loaders; the server waits for them when it stops.
    loaders: TaskTracker,
}

/// An entry of the cache: its value, and whether it need not be loaded again yet.
struct Entry<T> {
    value: Option<T>,
    is_fresh: bool,
}

impl Cache {
    pub(crate) fn new(redis: SharedConnection, loaders: TaskTracker) -> Self {
        let kept = LocalCache::builder().max_capacity(KEPT).time_to_live(KEPT_FOR).build();
        Self { redis, kept, loaders }
    }

    /// The value of an entry, loaded by `load` if it is neither fresh nor being loaded by others; `None` if it
    /// does not exist.
    pub(crate) async fn get<T, L>(
        &self,
        keys: &CacheKeys,
        load: impl Fn() -> L,
    ) -> Result<Option<T>, Refusal>
    where
        T: Serialize + DeserializeOwned + Send + Sync + 'static,
        L: Future<Output = Result<Option<T>, Refusal>> + Send + 'static,
    {
        let began = Instant::now();
        loop {
            let found = match self.read(keys).await {
                Err(Refusal::Unavailable(_)) => return self.without_redis(keys, load()).await,
                found => found?,
            };
            if let Some(Entry { value, is_fresh: true }) = found {
                return Ok(value);
            }
            let loading = self.clone().load_alone(keys.clone(), load());
            let loaded = self.loaders.spawn(loading).await.map_err(|_| Refusal::Defect)?;
            match (loaded, found) {
                // A stale value is better than none.
                (Ok(Some(Ok(value))), _) | (_, Some(Entry { value, .. })) => return Ok(value),
                (Ok(Some(Err(why))) | Err(why), None) => return Err(why),
                (Ok(None), None) => {}
            }
            if began.elapsed() > WAITS_FOR {
                return Err(Refusal::Overloaded);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Loads an entry and stores it; `None` if another loader does so. Nothing cancels it between taking the lock and
    /// releasing it.
    async fn load_alone<T: Serialize>(
        self,
        keys: CacheKeys,
        load: impl Future<Output = Result<Option<T>, Refusal>>,
    ) -> Result<Option<Result<Option<T>, Refusal>>, Refusal> {
        let Some(token) = self.lock(&keys).await? else { return Ok(None) };
        let loaded = load.await;
        let ended = match &loaded {
            Ok(value) => self.store(&keys, &token, value.as_ref()).await,
            // Others may try.
            Err(_) => self.unlock(&keys).await,
        };
        if let Err(error) = ended {
            // The answer does not depend on Redis; the lock expires.
            tracing::debug!(?error, entry = keys.entry, "a loaded value was not cached");
        }
        Ok(Some(loaded))
    }

    /// The fresh values among these entries, in their order, read at once; `None` for one that has to be got by itself.
    pub(crate) async fn fresh<T: DeserializeOwned>(&self, entries: &[String]) -> Vec<Option<T>> {
        let found = self.redis.fresh(entries, STALE_MS).await.into_iter();
        let value = |text: Vec<u8>| serde_json::from_slice::<Option<T>>(&text).ok().flatten();
        found.map(|text| text.ok().flatten().and_then(value)).collect()
    }

    async fn without_redis<T: Serialize + DeserializeOwned>(
        &self,
        keys: &CacheKeys,
        load: impl Future<Output = Result<Option<T>, Refusal>>,
    ) -> Result<Option<T>, Refusal> {
        let loading = async { json(&load.await?) };
        let kept = self.kept.try_get_with(keys.entry.clone(), loading).await;
        let text = kept.map_err(|why| Refusal::clone(&why))?;
        serde_json::from_str(&text).map_err(|error| invalid(&error))
    }

    /// An entry that is no value of this type counts as missing: another version of the program may have stored it.
    async fn read<T: DeserializeOwned>(
        &self,
        keys: &CacheKeys,
    ) -> Result<Option<Entry<T>>, Refusal> {
        let mut read = pipe();
        read.cmd("GET").arg(&keys.entry).cmd("PTTL").arg(&keys.entry);
        let (text, lasts): (Option<Vec<u8>>, i64) = self.redis.pipe(&keys.entry, &read).await?;
        let value = text.and_then(|text| serde_json::from_slice(&text).ok());
        let is_fresh = u64::try_from(lasts).is_ok_and(|lasts| lasts > STALE_MS);
        Ok(value.map(|value| Entry { value, is_fresh }))
    }

    /// Takes the lock of the loader; returns its token.
    async fn lock(&self, keys: &CacheKeys) -> Result<Option<String>, Refusal> {
        let token = Uuid::new_v4().simple().to_string();
        let mut lock = cmd("SET");
        lock.arg(&keys.loading).arg(&token).arg("NX").arg("PX").arg(LOADS_WITHIN_MS);
        let taken: Option<String> = self.redis.query(&keys.loading, &lock).await?;
        Ok(taken.map(|_| token))
    }

    /// The lock may have expired and belong to another loader, whose value is then not stored but loaded again.
    async fn unlock(&self, keys: &CacheKeys) -> Result<(), Refusal> {
        self.redis.query::<u64>(&keys.loading, cmd("DEL").arg(&keys.loading)).await?;
        Ok(())
    }

    async fn store<T: Serialize>(
        &self,
        keys: &CacheKeys,
        token: &str,
        value: Option<&T>,
    ) -> Result<(), Refusal> {
        let text = json(&value)?;
        let fresh = if value.is_some() { FRESH_MS } else { NULL_FRESH_MS };
        let mut call = scripts::CACHE_STORE.prepare_invoke();
        call.key(&keys.entry).key(&keys.loading);
        call.arg(token).arg(text).arg(rand::random_range(fresh) + STALE_MS);
        self.redis.invoke::<u64>(&keys.entry, &call).await?;
        Ok(())
    }
}

fn json(value: &impl Serialize) -> Result<String, Refusal> {
    serde_json::to_string(value).map_err(|error| invalid(&error))
}

fn invalid(error: &serde_json::Error) -> Refusal {
    Refusal::Invalid(reason!("http-json", why = error.to_string()))
}
