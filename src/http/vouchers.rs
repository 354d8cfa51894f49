//! The endpoints of vouchers and sales. Types and states of vouchers are numbers here, as in the tutorials and in SQL.

use std::{sync::Arc, time::Duration};

use axum::extract::State;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use moka::future::Cache;
use redis::cmd;
use seckill_engine::{Command, EngineError, Operator, Reply, orders::vouchers::Vouchers};
use seckill_model::{
    Millis, NewSale, OrderId, Voucher, VoucherDetails, VoucherId, VoucherKind, VoucherStatus,
    reason::reason,
    sale::{ShardId, Spread},
    user::Token,
};
use seckill_store::SharedStore;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Shared,
    answer::{Answer, Envelope, Refusal, Result},
    body::Body,
    operators::ByOperator,
    path::PathId,
    sessions::Buyer,
};

/// Maximum number of vouchers of a shop that are listed: the newest ones.
const LISTED: u32 = 500;
/// How long the page of a shop is reused: any client may ask for it, and each page reads the stock of all its vouchers.
const REUSED_FOR: Duration = Duration::from_millis(250);
/// Maximum number of vouchers on the pages that are kept: about 50 MB.
const KEPT: u64 = 100_000;
/// Vouchers of a page that are loaded from SQL at once.
const LOADED_AT_ONCE: usize = 8;

type Refused<T> = std::result::Result<T, Refusal>;

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show_voucher)).routes(routes!(list))
}

pub(crate) fn routes_of_operators() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(create_sale))
        .routes(routes!(restock))
}

/// A voucher as it is created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewVoucher {
    #[schema(maximum = 9_223_372_036_854_775_807_u64)]
    shop_id: Option<u64>,
    #[schema(min_length = 1)]
    title: String,
    #[schema(min_length = 1)]
    sub_title: Option<String>,
    #[schema(min_length = 1)]
    rules: Option<String>,
    #[serde(default)]
    pay_value: u64,
    #[serde(default)]
    actual_value: u64,
    /// 0 ordinary, 1 flash sale; follows from the path if it is absent.
    #[schema(minimum = 0, maximum = 1)]
    r#type: Option<i64>,
    /// 1 on, 2 off, 3 expired.
    #[schema(minimum = 1, maximum = 3)]
    status: Option<i64>,
    /// What clients of the tutorials send as null: the server sets it, or only a flash sale has it.
    #[serde(default, rename = "id")]
    #[schema(ignore)]
    _id: (),
    #[serde(default, rename = "createTime")]
    #[schema(ignore)]
    _create_time: (),
    #[serde(default, rename = "updateTime")]
    #[schema(ignore)]
    _update_time: (),
    #[serde(default, rename = "stock")]
    #[schema(ignore)]
    _stock: (),
    #[serde(default, rename = "beginTime")]
    #[schema(ignore)]
    _begin_time: (),
    #[serde(default, rename = "endTime")]
    #[schema(ignore)]
    _end_time: (),
}

impl NewVoucher {
    fn checked(self, kind: VoucherKind) -> Refused<VoucherDetails> {
        if self.r#type.is_some_and(|given| VoucherKind::from_repr(given) != Some(kind)) {
            return Err(Refusal::Invalid(reason!("http-voucher-type")));
        }
        let status = self.status.map_or(Some(VoucherStatus::On), VoucherStatus::from_repr);
        let details = VoucherDetails {
            title: self.title,
            shop_id: self.shop_id,
            sub_title: self.sub_title,
            rules: self.rules,
            pay_value: self.pay_value,
            actual_value: self.actual_value,
            status: status.ok_or_else(|| Refusal::Invalid(reason!("http-voucher-status")))?,
        };
        details.checked().map_err(Refusal::Invalid)
    }
}

/// A flash-sale voucher as it is created. Times are RFC 3339, or a date and time of the server's zone.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewSaleVoucher {
    #[serde(flatten)]
    voucher: NewVoucher,
    #[schema(minimum = 1, maximum = 10_000_000)]
    stock: u64,
    begin_time: Option<String>,
    end_time: Option<String>,
    /// Orders per user.
    #[schema(minimum = 1, maximum = 20)]
    limit: Option<u64>,
    /// Shards over which the stock is spread.
    #[schema(minimum = 1, maximum = 64)]
    shards: Option<u64>,
}

/// A voucher as it is shown, and cached without its stock. What only a flash sale has is `None` for an ordinary one.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VoucherView {
    #[schema(value_type = u64)]
    id: VoucherId,
    shop_id: Option<u64>,
    title: String,
    sub_title: Option<String>,
    rules: Option<String>,
    pay_value: u64,
    actual_value: u64,
    r#type: i64,
    status: i64,
    begin_time: Option<String>,
    end_time: Option<String>,
    limit: Option<u8>,
    state: Option<String>,
    /// Shards over which the sale is spread; `None` if it is not.
    shards: Option<u16>,
    /// Pieces left, by Redis; `None` if it does not hold the sale.
    stock: Option<i64>,
}

/// Creates an ordinary voucher. For operators.
#[utoipa::path(
    post, path = "/voucher", tag = "vouchers",
    request_body = NewVoucher,
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<u64>))
)]
async fn create(
    State(shared): State<Shared>,
    ByOperator(token): ByOperator,
    Body(new): Body<NewVoucher>,
) -> Result<VoucherId> {
    let voucher = new.checked(VoucherKind::Ordinary)?;
    match execute(&shared, token, Command::CreateVoucher(voucher)).await?? {
        Reply::VoucherCreated(id) => Ok(Answer(id)),
        _ => Err(Refusal::Defect),
    }
}

/// Creates a flash-sale voucher and its sale. For operators.
#[utoipa::path(
    post, path = "/voucher/seckill", tag = "vouchers",
    request_body = NewSaleVoucher,
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<u64>))
)]
async fn create_sale(
    State(shared): State<Shared>,
    ByOperator(token): ByOperator,
    Body(new): Body<NewSaleVoucher>,
) -> Result<VoucherId> {
    let details = new.voucher.checked(VoucherKind::Sale)?;
    if details.status != VoucherStatus::On {
        // Sold all the same: the window and the state of the sale decide.
        let status = json!({ "status": details.status as i64 });
        return Err(Refusal::Conflict(reason!("http-sale-not-on"), status));
    }
    let parse = |time: Option<String>| {
        time.map(|time| time.parse::<Millis>()).transpose().map_err(Refusal::Invalid)
    };
    let (begin, end) = (parse(new.begin_time)?, parse(new.end_time)?);
    let sale = NewSale::checked(&details.title, new.stock, begin, end, Millis::now())
        .and_then(|sale| sale.limited(new.limit.unwrap_or(1)))
        .and_then(|sale| sale.sharded(new.shards.unwrap_or(1)))
        .map_err(Refusal::Invalid)?;
    match execute(&shared, token, Command::CreateSaleVoucher(Box::new(details), sale)).await? {
        Ok(Reply::SaleCreated(id)) => Ok(Answer(id)),
        // It is in SQL, and nodes deliver it: a retry would create another one.
        Err(EngineError::NotLoaded { voucher, .. }) => Ok(Answer(voucher)),
        Ok(_) => Err(Refusal::Defect),
        Err(error) => Err(error.into()),
    }
}

/// A voucher with its live stock.
#[utoipa::path(
    get, path = "/voucher/{id}", tag = "vouchers",
    params(("id" = i64, Path, minimum = 1)),
    responses((status = 200, description = "success", body = Envelope<VoucherView>))
)]
async fn show_voucher(
    State(shared): State<Shared>,
    PathId(id): PathId<VoucherId>,
) -> Result<VoucherView> {
    let found = find(&shared, id).await?;
    found.map(Answer).ok_or(Refusal::NoVoucher)
}

/// The vouchers of a shop, newest first. An unknown shop has none.
#[utoipa::path(
    get, path = "/voucher/list/{shopId}", tag = "vouchers",
    params(("shopId" = i64, Path, minimum = 0)),
    responses((status = 200, description = "success", body = Envelope<Vec<VoucherView>>))
)]
async fn list(State(shared): State<Shared>, PathId(ShopId(shop)): PathId<ShopId>) -> Result<Page> {
    let page = shared.pages.try_get_with(shop, page(&shared, shop)).await;
    page.map(Answer).map_err(|why| Refusal::clone(&why))
}

/// The pages of shops that are reused.
pub(crate) type Pages = Cache<u64, Page>;
type Page = Arc<[VoucherView]>;

pub(crate) fn pages() -> Pages {
    // One without vouchers counts as well.
    let weight = |_: &u64, page: &Page| page.len() as u32 + 1;
    Cache::builder().weigher(weight).max_capacity(KEPT).time_to_live(REUSED_FOR).build()
}

/// The vouchers of a shop through the cache, with their live stock. What is cached is read at once.
async fn page(shared: &Shared, shop: u64) -> Refused<Page> {
    let load = || {
        let store = shared.store.clone();
        async move {
            let ids = store.vouchers_of_shop(shop, LISTED).await?;
            Ok((!ids.is_empty()).then_some(ids))
        }
    };
    let keys = shared.keys.shop_cache(shop);
    let ids: Vec<VoucherId> = shared.cache.get(&keys, load).await?.unwrap_or_default();
    let entries: Vec<String> = ids.iter().map(|id| shared.keys.voucher_cache(*id).entry).collect();
    let cached = shared.cache.fresh::<VoucherView>(&entries).await;
    let vouchers = stream::iter(ids.into_iter().zip(cached))
        .map(|(id, cached)| async move {
            match cached {
                Some(voucher) => Ok(Some(voucher)),
                None => cached_voucher(shared, id).await,
            }
        })
        .buffered(LOADED_AT_ONCE);
    let vouchers: Vec<Option<VoucherView>> = vouchers.try_collect().await?;
    let mut vouchers: Vec<VoucherView> = vouchers.into_iter().flatten().collect();
    set_stocks(shared, &mut vouchers).await;
    Ok(vouchers.into())
}

/// Sets the live stock of vouchers; that of a sale over shards is unknown without one of them.
async fn set_stocks(shared: &Shared, vouchers: &mut [VoucherView]) {
    let shards_of = |voucher: &VoucherView| match voucher.shards {
        Some(count) => Spread { sale: voucher.id.into(), count }.all().collect(),
        None => vec![ShardId::only(voucher.id)],
    };
    let shards: Vec<Vec<ShardId>> = vouchers.iter().map(shards_of).collect();
    let keys: Vec<String> = shards.iter().flatten().map(|it| shared.keys.stock(*it)).collect();
    let mut stocks = shared.redis.strings::<i64>(&keys).await.into_iter();
    for (voucher, shards) in vouchers.iter_mut().zip(shards) {
        let of_shards = stocks.by_ref().take(shards.len());
        voucher.stock = of_shards.map(|stock| stock.ok().flatten()).sum();
    }
}

/// The number of a shop: any that SQL can hold.
#[derive(Debug)]
struct ShopId(u64);

impl std::str::FromStr for ShopId {
    type Err = seckill_model::Reason;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let id = text.parse::<u64>().ok().filter(|id| i64::try_from(*id).is_ok());
        id.map(Self).ok_or_else(|| reason!("http-shop"))
    }
}

/// A voucher through the cache, with its live stock.
async fn find(shared: &Shared, id: VoucherId) -> Refused<Option<VoucherView>> {
    let Some(mut voucher) = cached_voucher(shared, id).await? else { return Ok(None) };
    if voucher.shards.is_some() {
        // Without one of them the sum is unknown, and the others sell on.
        set_stocks(shared, std::slice::from_mut(&mut voucher)).await;
    } else {
        let key = shared.keys.stock(ShardId::only(id));
        voucher.stock = shared.redis.query(&key, cmd("GET").arg(&key)).await?;
    }
    Ok(Some(voucher))
}

/// A voucher through the cache, without its stock.
async fn cached_voucher(shared: &Shared, id: VoucherId) -> Refused<Option<VoucherView>> {
    let load = || {
        let store = shared.store.clone();
        async move { load(&store, id).await }
    };
    shared.cache.get(&shared.keys.voucher_cache(id), load).await
}

async fn load(store: &SharedStore, id: VoucherId) -> Refused<Option<VoucherView>> {
    let Some(voucher) = store.voucher(id).await? else { return Ok(None) };
    let Voucher { voucher_id, kind, details } = voucher;
    let sale = match kind {
        VoucherKind::Ordinary => None,
        VoucherKind::Sale => Some(store.sale(id).await?),
    };
    let spread = sale.as_ref().and_then(|sale| sale.spread);
    let time = |at: Option<Millis>| at.map(|at| at.to_string());
    Ok(Some(VoucherView {
        id: voucher_id,
        shop_id: details.shop_id,
        title: details.title,
        sub_title: details.sub_title,
        rules: details.rules,
        pay_value: details.pay_value,
        actual_value: details.actual_value,
        r#type: kind as i64,
        status: details.status as i64,
        begin_time: time(sale.as_ref().and_then(|sale| sale.begin)),
        end_time: time(sale.as_ref().and_then(|sale| sale.end)),
        limit: sale.as_ref().map(|sale| sale.limit),
        shards: spread.map(|spread| spread.count),
        state: sale.map(|sale| sale.state.to_string()),
        stock: None,
    }))
}

/// Buys an ordinary voucher. The purchase is completed even if the client disconnects.
#[utoipa::path(
    post, path = "/voucher-order/{id}", tag = "orders",
    params(("id" = i64, Path, minimum = 1)),
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<String>))
)]
pub(crate) async fn buy_voucher(
    State(shared): State<Shared>,
    Buyer(user): Buyer,
    PathId(voucher): PathId<VoucherId>,
) -> Result<OrderId> {
    if shared.store.voucher(voucher).await?.is_none() {
        return Err(Refusal::NoVoucher);
    }
    let mut servers = shared.servers().await?;
    let buying = async move { Vouchers { servers: &mut servers }.buy(voucher, user).await };
    Ok(Answer(shared.complete(buying).await??))
}

/// Executes a command on behalf of the holder of a token. It is completed even if the client disconnects: a change that
/// was begun in SQL is delivered to Redis.
async fn execute(
    shared: &Shared,
    by: Token,
    command: Command,
) -> Refused<std::result::Result<Reply, EngineError>> {
    let operator = Operator { login: by.name, ..shared.operator.clone() };
    let stop = shared.stopping.clone();
    let done = shared.complete(async move { operator.execute(command, &stop).await }).await;
    // Its operator finds the change in the lists of this server.
    shared.pages.invalidate_all();
    done
}

/// A change of the stock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Restock {
    /// Pieces to add, or to remove if negative.
    #[schema(minimum = -10_000_000, maximum = 10_000_000)]
    by: i64,
}

/// The stock of a sale.
#[derive(Debug, Serialize, ToSchema)]
struct Stock {
    /// All pieces, sold or not.
    initial: u64,
    /// Pieces left; absent while Redis has not confirmed the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    stock: Option<i64>,
}

/// Adds pieces to a sale, or removes unsold ones. For operators.
#[utoipa::path(
    put, path = "/voucher/{id}/stock", tag = "vouchers",
    params(("id" = i64, Path, minimum = 1)),
    request_body = Restock,
    security(("token" = [])),
    responses((status = 200, description = "success", body = Envelope<Stock>))
)]
async fn restock(
    State(shared): State<Shared>,
    ByOperator(token): ByOperator,
    PathId(voucher): PathId<VoucherId>,
    Body(Restock { by }): Body<Restock>,
) -> Result<Stock> {
    match execute(&shared, token, Command::Restock { voucher, by }).await? {
        Ok(Reply::Restocked { initial, .. }) => {
            let found = find(&shared, voucher).await.ok().flatten();
            Ok(Answer(Stock { initial, stock: found.and_then(|voucher| voucher.stock) }))
        }
        // It is in SQL, and nodes deliver it: a retry would add the pieces twice.
        Err(EngineError::NotLoaded { .. }) => {
            let initial = shared.store.sale(voucher).await?.initial;
            Ok(Answer(Stock { initial, stock: None }))
        }
        Ok(_) => Err(Refusal::Defect),
        Err(error) => Err(error.into()),
    }
}
