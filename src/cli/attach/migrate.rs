//! `seckill attach migrate`: moves a sale from a service to the engine, and back.

use std::{env, io};

use clap::Args;
use seckill_attach::{
    AttachError, Profile,
    migrate::{BackPlan, Engine, Figures, Migration, Options, Plan, Proof, Stage, has_engine},
};
use seckill_engine::{
    Command, EngineError, Operator,
    commands::{operator_lock, outcome::CommandOutcome},
    deployment, ledger,
    orders::vouchers::Vouchers,
};
use seckill_model::{
    Fence, Label, Message, Millis, OsError, Reason, SaleState, VoucherId,
    faults::{self, Point},
    reason, text,
};
use seckill_redis::Redis;
use seckill_store::{AuditEntry, SharedStore};
use serde_json::{Value, json};

use crate::{
    CliError, Config, Consent, Context, Needs, Output, Result, Table, ask, count_in, fields,
    number, or_dash, reply, signals::Signals,
};

/// Timeout of the statements that insert a whole sale; of their transaction, twice as long.
const STATEMENT_MS: u64 = 300_000;
/// Names in the audit log.
const THERE: &str = "attach migrate";
const BACK: &str = "attach migrate --back";

#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    /// Voucher ID of the sale
    #[arg(long, value_name = "ID")]
    sale: VoucherId,
    /// Redis of the engine; it may be that of the service
    #[arg(long, value_name = "URL")]
    to_redis: String,
    /// Database of the engine; it must be another one than that of the service
    #[arg(long, value_name = "URL")]
    to_database: String,
    /// Move the sale back: from the engine to the service
    #[arg(long)]
    back: bool,
    /// Show what moves and what prevents it, and change nothing; exit 1 if something prevents it
    #[arg(long)]
    dry_run: bool,
    /// Leave out buyers without an order: their pieces are on sale again
    #[arg(long, conflicts_with = "back")]
    leave_out: bool,
    /// State that the service is stopped and no order waits in its memory, which cannot be seen; required without a
    /// stream, and if clients of other services read with XREADGROUP
    #[arg(long)]
    service_stopped: bool,
    /// Seconds without a request after which a consumer of the service counts as stopped
    #[arg(long, value_name = "SECS", default_value = "10", value_parser = count_in(1..=3_600))]
    quiet: u64,
    #[command(flatten)]
    consent: Consent,
}

pub(super) async fn run(
    config: &Config,
    out: Output,
    profile: Profile,
    redis: &Redis,
    database: &str,
    args: &MigrateArgs,
) -> Result<u8> {
    let (mut target, mut to_database) = (config.clone(), args.to_database.clone());
    // The plan needs tables, and a dry run creates neither a file nor tables.
    let scratch;
    let is_new = match seckill_store::file_of(&to_database) {
        _ if !args.dry_run => false,
        Some(file) => !file.exists(),
        None => !has_engine(&to_database, &config.store, &profile).await?,
    };
    if is_new {
        scratch = tempfile::tempdir().map_err(|error| scratch_failed(&error))?;
        to_database = format!("sqlite:{}", scratch.path().join("engine.db").display());
        seckill_store::open(&to_database, &config.store).await?.close().await;
    }
    (target.redis, target.database) = (Some(args.to_redis.clone()), Some(to_database));
    target.read_only |= args.dry_run;
    target.store.statement_ms = target.store.statement_ms.max(STATEMENT_MS);
    let done = Box::pin(Context::with(&target, out, Needs::Both, async |context| {
        let mut engine = Engine {
            store: SharedStore::clone(&context.store),
            keys: context.keys.clone(),
            conn: context.redis.connection(),
            name: deployment::name(&context.store, context.config.read_only).await?,
        };
        if is_new {
            // The real run stores the name of the database there.
            deployment::reject_foreign(&mut engine.conn, &engine.keys, &engine.name).await?;
        }
        let options = Options {
            leave_out: args.leave_out,
            is_stopped: args.service_stopped,
            quiet_ms: args.quiet * 1_000,
        };
        let settings = &config.store;
        let mut migration =
            Migration::new(profile, args.sale, options, redis, database, settings, engine)?;
        if args.dry_run {
            return dry_run(context, &mut migration, args).await;
        }
        let operator = context.writer(&args.consent)?;
        let (mut conn, action) = (context.redis.connection(), if args.back { BACK } else { THERE });
        let locks = &operator.locks;
        let guard =
            operator_lock::take(locks, &mut conn, &context.keys, &operator.login, action).await?;
        let fence = Fence { name: guard.name().to_string(), token: guard.token() };
        let moving = async {
            let stage = migration.claim(&fence).await?;
            let run = Run { context, operator: &operator, args, fence: &fence };
            if args.back {
                run.back(&mut migration, stage).await
            } else {
                run.there(&mut migration, stage).await
            }
        };
        let done = guard.run(Box::pin(moving)).await;
        if let Err(error) = guard.release().await {
            tracing::warn!(%error, "the operator lock was not released");
        }
        done.map_err(EngineError::from)?
    }));
    done.await
}

fn scratch_failed(error: &io::Error) -> CliError {
    let (path, error) = (env::temp_dir().display().to_string(), OsError::of(error).to_string());
    CliError::failed(text!("attach-no-scratch", path, error))
}

async fn dry_run(context: &Context, migration: &mut Migration, args: &MigrateArgs) -> Result<u8> {
    if args.back {
        if migration.stage().await? == Stage::Returned {
            return Err(unfinished_return(args.sale));
        }
        let plan = plan_back(context, migration, args.sale).await?;
        return refuse_or(context.out, plan.findings.is_empty(), &json!(plan), &of_back(&plan));
    }
    match migration.stage().await? {
        stage @ (Stage::AtService | Stage::Fenced) => {
            let mut plan = migration.plan().await?;
            if stage == Stage::Fenced {
                plan.findings.push(reason!("attach-move-fenced", voucher = args.sale));
            }
            refuse_or(context.out, plan.findings.is_empty(), &json!(plan), &of_plan(&plan))
        }
        Stage::AtEngine => {
            Err(CliError::failed(text!("attach-move-unfinished", voucher = args.sale)))
        }
        Stage::Moved => moved(context.out, args.sale, 0),
        Stage::Returning | Stage::Returned => Err(unfinished_return(args.sale)),
    }
}

fn unfinished_return(voucher: VoucherId) -> CliError {
    CliError::failed(text!("attach-move-returning", voucher))
}

/// Prints a plan that nothing is done with.
fn refuse_or(out: Output, is_possible: bool, plan: &Value, text: &str) -> Result<u8> {
    let document = json!({ "plan": plan, "moved": false });
    out.verdict(is_possible, &document, || {
        let end =
            if is_possible { Label("attach-move-possible") } else { Label("attach-move-refused") };
        format!("{text}\n{end}")
    })
}

fn moved(out: Output, voucher: VoucherId, carried: u64) -> Result<u8> {
    let document = json!({ "moved": true, "carried": carried });
    out.answer(&document, || match carried {
        0 => text!("attach-move-before", voucher),
        payments => text!("attach-move-carried", payments),
    })
}

/// A run that may change something.
struct Run<'r> {
    context: &'r Context,
    operator: &'r Operator,
    args: &'r MigrateArgs,
    fence: &'r Fence,
}

impl Run<'_> {
    async fn there(&self, migration: &mut Migration, stage: Stage) -> Result<u8> {
        let (out, voucher) = (self.context.out, self.args.sale);
        let mut plan = Value::Null;
        match stage {
            Stage::AtService | Stage::Fenced => {
                let found = migration.plan().await?;
                plan = json!(found);
                let agreed = if found.findings.is_empty() {
                    out.say(&of_plan(&found));
                    let Plan { title, initial, redis_stock, .. } = &found;
                    let stock = redis_stock.unwrap_or(0);
                    let question = text!("attach-move-ask", voucher, title, stock, initial);
                    ask(&self.args.consent, &question).map(|()| true)
                } else {
                    Ok(false)
                };
                if stage == Stage::Fenced && !matches!(agreed, Ok(true)) {
                    migration.put_back(self.fence).await?;
                }
                if !agreed? {
                    return refuse_or(out, false, &plan, &of_plan(&found));
                }
                // Neither side sells it until this has ended: a lost terminal or the first Ctrl-C does not leave it so.
                Signals::listen()?;
                if let Err(error) = migration.hand_over(&found, self.fence).await {
                    return Err(interrupted(migration, error, voucher).await);
                }
            }
            Stage::AtEngine => {}
            Stage::Moved => {
                let carried = migration.carry().await?;
                return moved(out, voucher, carried);
            }
            Stage::Returning | Stage::Returned => return Err(unfinished_return(voucher)),
        }
        // A sale that SQL has and Redis lacks is rebuilt with its buyers.
        let sale = self.context.store.sale(voucher).await?;
        self.set_state(sale.state).await?;
        faults::pass(Point::MigrationStep);
        let payments = migration.carry().await?;
        if payments > 0 {
            out.say(&text!("attach-move-carried", payments));
        }
        let proof = migration.prove(false).await?;
        if proof.is_complete() {
            migration.finish().await?;
            record(self.operator, THERE, voucher);
        }
        proved(out, &plan, &proof, proof.is_complete())
    }

    async fn back(&self, migration: &mut Migration, stage: Stage) -> Result<u8> {
        let (out, voucher) = (self.context.out, self.args.sale);
        let sale = self.context.store.sale(voucher).await?;
        if matches!(sale.state, SaleState::Ended | SaleState::Archived) && sale.is_undelivered() {
            // The operator confirmed it in an earlier run, which was killed before Redis had the change.
            self.set_state(sale.state).await?;
        }
        if stage == Stage::Returned {
            // It was proved before the service got its stock, and may have sold and closed orders since.
            let proof = migration.prove(true).await?;
            return self.archive(migration, &Value::Null, &proof, true).await;
        }
        if stage == Stage::AtService && migration.has_returned().await? {
            let document = json!({ "moved": true });
            return out.answer(&document, || text!("attach-back-before", voucher));
        }
        let returned = self.give_back(migration).await;
        let is_done = matches!(returned, Ok(Ok(_)));
        let undone = if is_done { Ok(()) } else { self.undo(migration).await };
        let returned = returned?;
        undone?;
        let plan = match returned {
            Ok(plan) => json!(plan),
            Err(plan) => return refuse_or(out, false, &json!(plan), &of_back(&plan)),
        };
        let proof = migration.prove(true).await?;
        self.archive(migration, &plan, &proof, proof.is_complete()).await
    }

    /// Gives the sale back as planned; otherwise returns the plan with what prevents it.
    async fn give_back(
        &self,
        migration: &mut Migration,
    ) -> Result<std::result::Result<BackPlan, BackPlan>> {
        let (out, voucher) = (self.context.out, self.args.sale);
        let plan = plan_back(self.context, migration, voucher).await?;
        if !plan.findings.is_empty() {
            return Ok(Err(plan));
        }
        out.say(&of_back(&plan));
        let BackPlan { title, live, stock, state, .. } = &plan;
        ask(&self.args.consent, &text!("attach-back-ask", voucher, title, stock, live))?;
        // What prevents the return since the operator has read the plan: afterwards, the sale has ended for good.
        let again = plan_back(self.context, migration, voucher).await?;
        if !again.findings.is_empty() {
            return Ok(Err(again));
        }
        Signals::listen()?;
        // Before its end, so that no kill leaves a sale without a trace that is on sale nowhere.
        migration.begin_return(&plan).await?;
        faults::pass(Point::MigrationStep);
        if *state != SaleState::Ended {
            reply::execute(self.operator, Command::EndSale(voucher)).await?;
        }
        faults::pass(Point::MigrationStep);
        migration.freeze_orders(self.fence).await?;
        faults::pass(Point::MigrationStep);
        // The sale may have been resumed meanwhile, and its orders paid or closed. It is over now.
        let plan = plan_back(self.context, migration, voucher).await?;
        if !plan.findings.is_empty() {
            return Ok(Err(plan));
        }
        migration.give_back(&plan).await?;
        Ok(Ok(plan))
    }

    /// After a return that was refused, declined or interrupted: a sale that has not ended has no trace of a return, and
    /// the engine pays the orders of one that has.
    async fn undo(&self, migration: &mut Migration) -> Result<()> {
        if migration.stage().await? != Stage::Returning {
            return Ok(());
        }
        let state = self.context.store.sale(self.args.sale).await?.state;
        if matches!(state, SaleState::Ended | SaleState::Archived) {
            migration.thaw_orders(self.fence).await?;
        } else {
            migration.withdraw().await?;
        }
        Ok(())
    }

    async fn archive(
        &self,
        migration: &mut Migration,
        plan: &Value,
        proof: &Proof,
        is_there: bool,
    ) -> Result<u8> {
        if is_there {
            self.set_state(SaleState::Archived).await?;
            faults::pass(Point::MigrationStep);
            migration.forget_return().await?;
            record(self.operator, BACK, self.args.sale);
        }
        proved(self.context.out, plan, proof, is_there)
    }

    async fn set_state(&self, state: SaleState) -> Result<()> {
        let mut servers = self.context.servers();
        Vouchers { servers: &mut servers }.set_state(self.args.sale, state, None).await?;
        Ok(())
    }
}

/// An error of a migration, with what the operator has to do if neither side sells now.
async fn interrupted(
    migration: &mut Migration,
    error: AttachError,
    voucher: VoucherId,
) -> CliError {
    let is_stopped = match migration.stage().await {
        Ok(stage) => stage == Stage::Fenced,
        Err(AttachError::Mismatch(_)) => false,
        Err(_) => true,
    };
    let mut error = CliError::from(error);
    if is_stopped {
        let why = error.message();
        error.text = text!("attach-move-interrupted", why, voucher).into();
    }
    error
}

/// The plan, with what the audit of the engine finds.
async fn plan_back(
    context: &Context,
    migration: &mut Migration,
    voucher: VoucherId,
) -> Result<BackPlan> {
    let mut plan = migration.plan_back().await?;
    let audit = ledger::audit(&mut context.servers(), Some(voucher)).await?;
    for sale in audit.sales {
        let (entries, dead) = (sale.in_flight(), sale.dead);
        if entries + dead > 0 {
            plan.findings.push(reason!("attach-back-in-flight", entries, dead));
        }
        let found = sale.findings.iter().map(|it| Reason::from(it.to_string()));
        plan.findings.extend(found);
    }
    let orders = context.store.returning().await?;
    if orders > 0 {
        plan.findings.push(reason!("attach-back-returning", orders));
    }
    Ok(plan)
}

fn record(operator: &Operator, action: &str, voucher: VoucherId) {
    operator.outbox.put(AuditEntry {
        at: Millis::now(),
        operator: operator.login.clone(),
        node: operator.node.clone(),
        action: action.to_owned(),
        subject: Message::from(format!("#{voucher}")),
        reason: operator.reason.clone(),
        result: Message::of(&CommandOutcome::Finished),
        ..AuditEntry::default()
    });
}

fn of_plan(plan: &Plan) -> String {
    let lines = [
        (Label("column-sale"), format!("#{} {}", plan.voucher_id, plan.title)),
        (Label("column-stock"), or_dash(plan.redis_stock.map(number))),
        (Label("column-sql-stock"), number(plan.sql_stock)),
        (Label("column-initial"), number(plan.initial)),
        (Label("attach-column-buyers"), number(plan.buyers)),
        (Label("column-orders"), number(plan.in_sql)),
        (Label("attach-column-in-flight"), number(plan.in_flight)),
        (Label("attach-column-no-order"), number(plan.without_order)),
        (Label("attach-column-no-buyer"), number(plan.without_buyer)),
    ];
    let mut text = fields(&lines).to_string();
    if plan.without_time > 0 {
        text.push_str(&format!("{}\n", text!("attach-move-no-time", count = plan.without_time)));
    }
    with_findings(text, &plan.findings)
}

fn of_back(plan: &BackPlan) -> String {
    let lines = [
        (Label("column-sale"), format!("#{} {}", plan.voucher_id, plan.title)),
        (Label("cli-sale-state-name"), plan.state.to_string()),
        (Label("column-stock"), number(plan.stock)),
        (Label("column-sql-stock"), format!("{} → {}", number(plan.sql_stock), number(plan.stock))),
        (Label("attach-column-buyers"), number(plan.live)),
        (Label("column-closed"), number(plan.closed)),
        (Label("attach-back-missing"), number(plan.missing)),
        (Label("attach-back-changed"), number(plan.changed)),
    ];
    with_findings(fields(&lines).to_string(), &plan.findings)
}

fn with_findings(mut text: String, findings: &[Reason]) -> String {
    text.extend(findings.iter().map(|finding| format!("! {finding}\n")));
    text
}

fn proved(out: Output, plan: &Value, proof: &Proof, has_moved: bool) -> Result<u8> {
    let document = json!({ "plan": plan, "proof": proof, "moved": has_moved });
    out.verdict(has_moved, &document, || {
        let sides = [
            (Label("attach-move-service"), proof.service),
            (Label("attach-move-engine"), proof.engine),
        ];
        let table = Table::new(&sides)
            .left("", |(side, _)| *side)
            .right(&Label("attach-column-buyers"), |(_, it)| number(it.buyers))
            .right(&Label("column-orders"), |(_, it)| number(it.orders))
            .right(&Label("attach-column-in-flight"), |(_, it)| number(it.in_flight))
            .right(&Label("column-stock"), |(_, it): &(Label, Figures)| {
                or_dash(it.redis_stock.map(number))
            })
            .right(&Label("column-sql-stock"), |(_, it)| number(it.sql_stock));
        let Proof { matching, orders, differing, stock_matches, .. } = *proof;
        let end = if has_moved {
            text!("attach-move-proved", matching, orders)
        } else {
            text!("attach-move-not-proved", matching, orders, differing, stock_matches)
        };
        format!("{table}{end}")
    })
}
