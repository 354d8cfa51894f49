//! `seckill status`: one Snapshot.

use std::sync::Arc;

use super::{
    Fault,
    alone::Alone,
    context::Context,
    fault,
    output::{Output, number, sentences, span, table},
    sale::phase,
};
use crate::{
    config::Config,
    model::{EntryId, ledger::Balance},
    telemetry::{
        Meters, Snapshot,
        collector::Collector,
        snapshot::{AlarmKind, Health, SaleLine},
    },
};

pub(super) async fn run(config: &Config, out: Output) -> Result<u8, Fault> {
    let snapshot = match Context::open(config).await {
        Ok(mut context) => {
            let snapshot = look(&mut context).await;
            context.close().await;
            snapshot?
        }
        Err(fault) if fault.code == fault::UNREACHABLE => {
            let alone = Alone::open(config, fault).await?;
            let snapshot = alone.look().await;
            alone.close().await;
            snapshot
        }
        Err(fault) => return Err(fault),
    };
    out.answer(&snapshot, || words(&snapshot))?;
    Ok(if snapshot.redis.up && snapshot.sql.up { 0 } else { fault::UNREACHABLE })
}

/// Takes pictures until one shows books that stand still, at most three: a difference counts only
/// when two pictures in a row show it.
pub(super) async fn look(context: &mut Context) -> Result<Snapshot, Fault> {
    let mut collector = Collector::new(
        context.redis.link(),
        Arc::clone(&context.store),
        context.keys.clone(),
        Arc::new(Meters::default()),
        String::new(),
        context.config.read_only,
        context.config.engine.node_dead_ms,
    );
    let mut snapshot = collector.look(EntryId::MIN).await;
    for _ in 0..2 {
        if !matches!(snapshot.books, Balance::InFlight { .. }) {
            break;
        }
        snapshot = collector.look(EntryId::MIN).await;
    }
    Ok(snapshot)
}

fn words(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for health in [&snapshot.redis, &snapshot.sql] {
        text.push_str(&server(health));
    }
    let books = match &snapshot.books {
        Balance::Unknown => "unknown".to_owned(),
        Balance::Balanced { .. } => "balanced".to_owned(),
        Balance::InFlight { orders } => format!("{} orders in flight", number(*orders)),
        Balance::Off { findings } => format!("OFF: {}", sentences(findings)),
    };
    text.push_str(&format!("books      {books}\n"));
    if let Some(stream) = &snapshot.stream {
        let lag = stream.lag.map_or("unknown".to_owned(), number);
        let oldest =
            stream.oldest_pending_ms.map_or(String::new(), |ms| format!(", oldest {}", span(ms)));
        text.push_str(&format!(
            "stream     lag {lag}, pending {}{oldest}, dead letters {}\n",
            number(stream.pending),
            number(stream.dead)
        ));
        if let Some(oldest) = stream.oldest_ms {
            let (kept, oldest) = (number(stream.length), span(oldest));
            text.push_str(&format!("  keeps {kept} entries to replay, the oldest {oldest} old\n"));
        }
        for consumer in stream.consumers.iter().filter(|c| c.pending > 0 || c.alive) {
            let life = if consumer.alive { "alive" } else { "dead" };
            text.push_str(&format!(
                "  {} {life}, {} pending\n",
                consumer.name,
                number(consumer.pending)
            ));
        }
    }
    if !snapshot.sql.up && snapshot.sales.is_empty() {
        text.push_str(
            "sales, orders, jobs and the log are in the database, which is away: unknown\n",
        );
    } else if snapshot.sales.is_empty() {
        text.push_str("no sale yet\n");
    } else {
        let rows: Vec<Vec<String>> = snapshot
            .sales
            .iter()
            .map(|sale| {
                vec![
                    format!("#{}", sale.voucher_id),
                    sale.title.clone(),
                    phase(sale.phase).to_owned(),
                    stock(sale),
                    number(sale.initial),
                    sale.admitted.map_or("unknown".to_owned(), number),
                    number(sale.persisted),
                ]
            })
            .collect();
        text.push('\n');
        text.push_str(&table(
            &["sale", "title", "phase", "stock", "initial", "admitted", "persisted"],
            &[3, 4, 5, 6],
            &rows,
        ));
    }
    for alarm in &snapshot.alarms {
        text.push_str(&format!("! {}\n", alarm_words(&alarm.kind)));
    }
    text
}

fn stock(sale: &SaleLine) -> String {
    match (sale.stock, sale.admitted) {
        (Some(stock), _) => stock.to_string(),
        (None, Some(_)) => "not loaded".to_owned(),
        (None, None) => "unknown".to_owned(),
    }
}

fn server(health: &Health) -> String {
    let state = match &health.error {
        None => format!("answers in {:.1} ms", health.latency_us as f64 / 1_000.0),
        Some(error) => format!("AWAY: {error}"),
    };
    format!("{:<10} {state}\n", health.name)
}

pub(super) fn alarm_words(kind: &AlarmKind) -> String {
    match kind {
        AlarmKind::RedisAway { error } | AlarmKind::SqlAway { error } => error.clone(),
        AlarmKind::BooksOff { finding } => {
            format!("the books are off: {finding}; 'seckill audit' tells all")
        }
        AlarmKind::DeadConsumer { consumer, pending, .. } => {
            format!(
                "{consumer} is dead and holds {} entries; 'seckill pending apply' replays them",
                number(*pending)
            )
        }
        AlarmKind::SilentConsumer { consumer, pending, idle_ms } => format!(
            "{consumer} holds {} entries and has asked for none in {}; 'seckill pending apply' replays them",
            number(*pending),
            span(*idle_ms)
        ),
        AlarmKind::DeadLetters { count } => {
            format!("{} dead letters wait for a person", number(*count))
        }
        AlarmKind::RedisForgot { buyers, refused, .. } => format!(
            "Redis had forgotten {} buyers, who are put back; {} promises can't be kept; 'seckill audit' tells more",
            number(*buyers),
            number(*refused)
        ),
        AlarmKind::ServerBack { server, away_ms } => {
            format!("{server} answers again; it was away for {}", span(*away_ms))
        }
        AlarmKind::NoGroup => "the consumer group is gone; a running node makes it anew".to_owned(),
    }
}
