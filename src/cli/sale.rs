//! `seckill sale`: creates, shows and controls sales.

use clap::{Args, Subcommand};
use seckill_console::phase;
use seckill_engine::{Command, EngineError, Operator, Reply, SaleLine};
use seckill_model::{
    Label, Millis, NewSale, Phase, Sale, SaleState, ShardId, VoucherId, When, sale::check_restock,
    text,
};
use seckill_redis::stream_stats::read_stats;
use seckill_store::StoreError;
use serde_json::json;

use crate::{
    CliError, Config, Consent, Context, Needs, Output, Reason, Result, Table, ask, fields,
    indented, local, next_page, number, page, plain, reply, rows, snapshot,
};

#[derive(Debug, Subcommand)]
pub(super) enum SaleCommand {
    /// Create a sale; without --begin it starts immediately
    Create(CreateArgs),
    /// List sales that are not archived: running ones first, ended ones last, newest first among equals
    List {
        /// List archived sales instead
        #[arg(long)]
        archived: bool,
        /// With --archived: only sales before this one
        #[arg(long, value_name = "ID", requires = "archived")]
        before: Option<VoucherId>,
        /// With --archived: maximum number of sales
        #[arg(long, value_name = "N", default_value_t = 50, requires = "archived", value_parser = rows())]
        limit: u32,
    },
    /// Show one sale, archived or not
    Show {
        /// Voucher ID
        id: VoucherId,
    },
    /// Start a planned sale now
    Start(SaleArgs),
    /// Pause a sale
    Pause(SaleArgs),
    /// Resume a paused sale
    Resume(SaleArgs),
    /// End a sale permanently
    End {
        /// Voucher ID
        id: VoucherId,
        #[command(flatten)]
        consent: Consent,
    },
    /// Add stock, or remove unsold stock
    Restock {
        /// Voucher ID
        id: VoucherId,
        /// Pieces to add; -20 removes 20 unsold pieces
        #[arg(allow_hyphen_values = true, value_parser = super::output::difference)]
        by: i64,
        #[command(flatten)]
        reason: Reason,
    },
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Title shown to buyers
    #[arg(long)]
    title: String,
    /// Initial stock in pieces
    #[arg(long, allow_hyphen_values = true, value_parser = super::output::count)]
    stock: u64,
    /// Maximum orders per user
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = super::output::count)]
    limit: u64,
    /// Spread the stock over this many shards, each in a partition of its own: for a sale that one server cannot serve
    #[arg(long, value_name = "K", default_value_t = 1, allow_hyphen_values = true, value_parser = super::output::count)]
    shards: u64,
    /// Start time: 2026-11-20T14:30:00Z, '2026-11-20 14:30' (local), 14:30 or +10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    begin: Option<When>,
    /// End time; +10m is relative to the Redis clock
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    end: Option<When>,
    #[command(flatten)]
    reason: Reason,
}

#[derive(Debug, Args)]
pub(super) struct SaleArgs {
    /// Voucher ID
    id: VoucherId,
    #[command(flatten)]
    reason: Reason,
}

impl CreateArgs {
    /// The sale, with its window from `now`.
    fn sale(&self, now: Millis) -> Result<NewSale> {
        let at = |when: &Option<When>| when.as_ref().map(|when| when.from(now));
        let (begin, end) = (at(&self.begin), at(&self.end));
        let sale = NewSale::checked(&self.title, self.stock, begin, end, now);
        Ok(sale?.limited(self.limit)?.sharded(self.shards)?)
    }
}

pub(super) async fn run(config: &Config, out: Output, command: SaleCommand) -> Result<u8> {
    // Invalid arguments are reported before anything is opened, except the window.
    match &command {
        SaleCommand::Create(args) => {
            let sale = NewSale::checked(&args.title, args.stock, None, None, Millis::now())?;
            sale.limited(args.limit)?.sharded(args.shards)?;
        }
        SaleCommand::Restock { by, .. } => {
            check_restock(*by)?;
        }
        _ => {}
    }
    let needs = match command {
        SaleCommand::List { .. } | SaleCommand::Show { .. } => Needs::Readable,
        _ => Needs::Both,
    };
    let done = Context::with(config, out, needs, async |context| {
        let (command, reason) = match command {
            SaleCommand::List { archived: true, before, limit } => {
                return archived(context, before, limit).await;
            }
            SaleCommand::List { .. } => return list(context).await,
            SaleCommand::Show { id } => return show(context, id).await,
            SaleCommand::Create(args) => {
                // The window is resolved by the clock of Redis, by which it opens and closes.
                let now = context.redis.connection().now().await?;
                (Command::CreateSale(args.sale(now)?), args.reason)
            }
            SaleCommand::Start(SaleArgs { id, reason }) => (Command::StartSale(id), reason),
            SaleCommand::Pause(SaleArgs { id, reason }) => (Command::PauseSale(id), reason),
            SaleCommand::Resume(SaleArgs { id, reason }) => (Command::ResumeSale(id), reason),
            SaleCommand::End { id, consent } => {
                let operator = context.writer(&consent)?;
                let Sale { title, stock: left, initial, .. } = context.store.sale(id).await?;
                ask(&consent, &text!("cli-sale-end", voucher = id, title, left, initial))?;
                return change(context, &operator, Command::EndSale(id)).await;
            }
            SaleCommand::Restock { id, by, reason } => {
                (Command::Restock { voucher: id, by }, reason)
            }
        };
        let operator = context.operator(reason.reason)?;
        change(context, &operator, command).await
    });
    done.await
}

async fn change(context: &Context, operator: &Operator, command: Command) -> Result<u8> {
    let reply = reply::execute(operator, command).await?;
    match reply {
        Reply::SaleChanged { voucher, .. } | Reply::Restocked { voucher, .. } => {
            let sale = context.store.sale(voucher).await?;
            context.out.answer(&sale, || reply::text(&reply))
        }
        reply => reply::answer(context.out, &reply),
    }
}

async fn list(context: &mut Context) -> Result<u8> {
    let (_, snapshot) = snapshot::settled(context).await;
    // A failed read is not an empty list.
    if let Some(error) = snapshot.sql.error.or(snapshot.redis.error) {
        return Err(CliError::unreachable(error.localized::<EngineError>()));
    }
    let code = context.out.answer(&snapshot.sales, || match snapshot.sales.as_slice() {
        [] => Label("cli-sale-none").to_owned(),
        sales => table(sales).to_string(),
    })?;
    Ok(CliError::name_lost(&snapshot.unreachable, code))
}

async fn archived(context: &Context, before: Option<VoucherId>, limit: u32) -> Result<u8> {
    let mut sales = context.store.archived(before, limit + 1).await?;
    let next = page(&mut sales, limit, |sale| sale.voucher_id);
    let now = Millis::now();
    let sales: Vec<_> = sales.iter().map(|sale| SaleLine::of(sale, now, None)).collect();
    context.out.answer(&json!({ "sales": sales, "next": next }), || {
        if sales.is_empty() {
            return match before {
                Some(_) => Label("cli-sale-none-archived-before"),
                None => Label("cli-sale-none-archived"),
            }
            .to_owned();
        }
        let text = Table::new(&sales)
            .left(&Label("column-sale"), |sale| format!("#{}", sale.voucher_id))
            .left(&Label("column-title"), |sale| sale.title.clone())
            .right(&Label("column-initial"), |sale| number(sale.initial))
            .right(&Label("column-persisted"), |sale| number(sale.persisted))
            .left(&Label("column-changed"), |sale| local(sale.changed))
            .to_string();
        text + &next_page("seckill sale list --archived --before", next)
    })
}

async fn show(context: &Context, id: VoucherId) -> Result<u8> {
    let shards = context.store.shards_of(id).await?;
    let mut conn = context.redis.connection();
    conn.probe(&context.keys).await;
    let ids: Vec<ShardId> = shards.iter().map(|shard| shard.id).collect();
    let stats = read_stats(&mut conn, &context.keys, &ids).await?;
    let lines = SaleLine::of_vouchers(shards.iter().zip(&stats.sales).map(|(shard, facts)| {
        let facts = facts.as_ref().filter(|_| shard.state != SaleState::Archived);
        SaleLine::of_shard(shard, stats.now, facts)
    }));
    let line = lines.first().ok_or(StoreError::NoSale(id))?;
    let code = context.out.answer(line, || match line.shards.as_slice() {
        [] => card(line),
        shards => format!("{}\n{}", card(line), indented(&table(shards).to_string())),
    })?;
    Ok(CliError::name_lost(conn.lost(), code))
}

/// The stock in Redis as far as it is known. Redis has no figures of an archived sale.
fn stock(sale: &SaleLine) -> String {
    match (sale.stock, sale.admitted, sale.partly_loaded()) {
        (Some(stock), ..) => number(stock),
        (.., Some((stock, lacking))) => text!("cli-sale-partly-loaded", stock, lacking),
        (None, Some(_), None) => Label("cli-sale-not-loaded").to_owned(),
        (None, None, None) => unknown(sale),
    }
}

fn unknown(sale: &SaleLine) -> String {
    match sale.phase {
        Phase::Archived => "-".to_owned(),
        _ => Label("common-unknown").to_owned(),
    }
}

/// The figures of each sale, or of each shard of one.
pub(super) fn table(sales: &[SaleLine]) -> Table<'_, SaleLine> {
    Table::new(sales)
        .left(&Label("column-sale"), |sale| format!("#{}", sale.shard_id()))
        .left(&Label("column-title"), |sale| sale.title.clone())
        .left(&Label("column-phase"), |sale| phase(sale.phase))
        .right(&Label("column-stock"), stock)
        .right(&Label("column-sql-stock"), |sale| number(sale.db_stock))
        .right(&Label("column-initial"), |sale| number(sale.initial))
        .right(&Label("column-admitted"), |sale| {
            sale.admitted.map_or_else(|| unknown(sale), number)
        })
        .right(&Label("column-persisted"), |sale| number(sale.persisted))
}

fn card(line: &SaleLine) -> String {
    let time = |at: Option<Millis>, none: Label| at.map_or_else(|| none.to_owned(), local);
    let (initial, db_stock) = (line.initial, line.db_stock);
    let left = match line.stock {
        Some(stock) => text!("cli-sale-stock", stock = stock.max(0), initial, db_stock),
        None if line.phase == Phase::Archived => text!("cli-sale-unsold", db_stock, initial),
        None => text!("cli-sale-stock-in-sql", left = stock(line), db_stock, initial),
    };
    let state = text!("cli-sale-state", state = line.state, at = local(line.changed));
    let begin = time(line.begin, Label("cli-sale-at-once"));
    let end = time(line.end, Label("cli-sale-no-end"));
    let none = || match line.phase {
        Phase::Archived => Label("cli-sale-not-in-redis").to_owned(),
        _ => Label("common-unknown").to_owned(),
    };
    let lines = [
        (Label("column-phase"), phase(line.phase)),
        (Label("cli-sale-state-name"), state),
        (Label("cli-sale-opens"), begin),
        (Label("cli-sale-ends"), end),
        (Label("cli-sale-limit-name"), text!("cli-sale-limit", limit = line.limit)),
        (Label("column-stock"), left),
        (Label("column-admitted"), line.admitted.map_or_else(none, number)),
        (Label("column-persisted"), number(line.persisted)),
    ];
    format!(
        "#{} {}\n{}",
        line.voucher_id,
        plain(&line.title),
        indented(&fields(&lines).to_string())
    )
}
