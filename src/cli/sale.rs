//! `seckill sale`: creates, shows and controls sales.

use std::slice;

use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use seckill_engine::{
    Command, EngineError, Operator, Reply, SaleLine,
    recovery::adoption::shards_of,
    telemetry::{
        snapshot::SqlCopy,
        survey::{Settled, settled},
    },
};
use seckill_model::{
    Label, Millis, NewSale, Phase, Sale, SaleShard, SaleState, ShardId, VoucherId, When,
    sale::check_restock, text,
};
use seckill_redis::stream_stats::{SaleStats, read_stats};
use seckill_store::StoreError;
use seckill_text::sale_phase;
use serde_json::json;

use crate::{
    CliError, Config, Consent, Context, Needs, Output, Reason, Result, Table, ask, fields,
    indented, local, next_page, number, page, plain, reply, rows, span,
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
                let shards = shards_of(&mut context.servers(), id.into()).await?;
                let sale = Sale::whole(&shards).ok_or(StoreError::NoSale(id))?;
                let Sale { title, stock: left, initial, .. } = sale;
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
        Reply::SaleCreated(voucher) => {
            let sale = context.store.sale(voucher).await?;
            let now = context.redis.connection().now().await.unwrap_or_else(|_| Millis::now());
            let created = json!({ "voucher_id": voucher, "begin": sale.begin, "end": sale.end });
            context.out.answer(&created, || {
                let lines =
                    [Some(reply.to_string()), Some(window(&sale, now)), reply::next(&reply)];
                lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
            })
        }
        reply => reply::answer(context.out, &reply),
    }
}

/// When a new sale sells, with the offset of the zone: a wrong zone would be hours.
fn window(sale: &Sale, now: Millis) -> String {
    let at = |at: Millis| at.with_offset(&TimeZone::system());
    let begin = sale.begin.filter(|begin| *begin > now);
    let ahead = begin.map_or_else(String::new, |begin| span(begin.since(now)));
    let none = || "none".to_owned();
    let (begin, end) = (begin.map_or_else(none, at), sale.end.map_or_else(none, at));
    text!("cli-sale-window", begin, ahead, end)
}

async fn list(context: &mut Context) -> Result<u8> {
    let Settled { snapshot, lost_unknown, .. } =
        Box::pin(settled(context, context.config.read_only)).await;
    // A failed read is not an empty list.
    if let Some(error) = snapshot.sql.error.or(snapshot.redis.error) {
        return Err(CliError::unreachable(error.localized::<EngineError>()));
    }
    if let Some(why) = lost_unknown {
        return Err(CliError::unreachable(why.to_string()));
    }
    let code = context.out.answer(&snapshot.sales, || match snapshot.sales.as_slice() {
        [] => Label("cli-sale-none").to_owned(),
        sales => {
            let notes = lost(sales).into_iter().chain(behind(sales));
            notes.fold(table(sales).to_string(), |text, note| text + &note + "\n")
        }
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

async fn show(context: &mut Context, id: VoucherId) -> Result<u8> {
    let shards = shards_of(&mut context.servers(), id.into()).await?;
    let mut conn = context.redis.connection();
    conn.probe(&context.keys).await;
    let ids: Vec<ShardId> = shards.iter().map(|shard| shard.id).collect();
    let stats = read_stats(&mut conn, &context.keys, &ids).await?;
    let lines = SaleLine::of_vouchers(shards.iter().zip(&stats.sales).map(|(shard, facts)| {
        let facts = facts.as_ref().filter(|_| shard.state != SaleState::Archived);
        SaleLine::of_shard(shard, stats.now, facts)
    }));
    let mut line = lines.into_iter().next().ok_or(StoreError::NoSale(id))?;
    let is_ahead = |(shard, facts): (&SaleShard, &Option<SaleStats>)| {
        facts.as_ref().is_some_and(|facts| facts.version > Some(shard.version))
    };
    if shards.iter().zip(&stats.sales).any(is_ahead) {
        let Settled { mut snapshot, .. } =
            Box::pin(settled(context, context.config.read_only)).await;
        snapshot.sales.retain(|sale| sale.voucher_id == id);
        line = snapshot.sales.pop().unwrap_or(line);
    }
    let code = context.out.answer(&line, || {
        let mut text = card(&line);
        if !line.shards.is_empty() {
            text.push_str(&format!("\n{}", indented(&table(&line.shards).to_string())));
        }
        let sales = slice::from_ref(&line);
        let notes = lost(sales).into_iter().chain(behind(sales));
        notes.fold(text, |text, note| format!("{}\n{note}", text.trim_end()))
    })?;
    Ok(CliError::name_lost(conn.lost(), code))
}

/// Names the sales that SQL has lost, or their shards, and the next step.
fn lost(sales: &[SaleLine]) -> Option<String> {
    let lost = sales.iter().filter(|sale| sale.is_lost());
    let parts = |sale: &SaleLine| match sale.sql {
        SqlCopy::Lost => vec![format!("#{}", sale.voucher_id)],
        _ => sale.shards.iter().filter(|it| it.is_lost()).map(name).collect(),
    };
    let sales = lost.flat_map(parts).collect::<Vec<_>>().join(&Label("list-items"));
    (!sales.is_empty()).then(|| text!("cli-sale-lost", sales))
}

/// Names the sales of which SQL lacks changes, and the next step.
pub(super) fn behind(sales: &[SaleLine]) -> Option<String> {
    let behind = sales.iter().filter(|sale| sale.sql == SqlCopy::Behind && !sale.is_lost());
    let sales = behind.map(name).collect::<Vec<_>>().join(&Label("list-items"));
    (!sales.is_empty()).then(|| text!("cli-sale-behind", sales))
}

fn name(sale: &SaleLine) -> String {
    format!("#{}", sale.shard_id())
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
        .left(&Label("column-sale"), name)
        .left(&Label("column-title"), |sale| sale.title.clone())
        .left(&Label("column-phase"), sale_phase)
        .right(&Label("column-stock"), stock)
        .right(&Label("column-sql-stock"), |sale| in_sql(sale, sale.db_stock))
        .right(&Label("column-initial"), |sale| number(sale.initial))
        .right(&Label("column-admitted"), |sale| {
            sale.admitted.map_or_else(|| unknown(sale), number)
        })
        .right(&Label("column-persisted"), |sale| in_sql(sale, sale.persisted))
}

/// A figure of SQL, which has none of a sale that it has lost.
fn in_sql(sale: &SaleLine, figure: u64) -> String {
    if sale.sql == SqlCopy::Lost { "-".to_owned() } else { number(figure) }
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
        (Label("column-phase"), sale_phase(line)),
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
