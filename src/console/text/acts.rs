//! Words of the acts: what is asked, and why nothing happens.

use seckill_engine::{
    command::RushPlan,
    plan::Plan,
    telemetry::snapshot::{Holder, JobLine, RecoveryLine, SaleLine},
};
use seckill_model::{NewSale, Phase, VoucherId};

pub(crate) use super::replies::reply;
use super::{
    figures::{self, counted, thousands},
    lang::{Lang, Word, spoken, tell, word},
    recovery, sale_name,
};
use crate::keymap::{Action, Context, actions, footer, key_of, lookup};

pub(crate) const CANCEL: Word = word("Cancel", "取消");
pub(crate) const NO_SALE: Word = word("there is no sale to act on", "没有可操作的秒杀");
pub(crate) const NOTHING_PENDING: Word =
    word("nothing is pending, so there is nothing to plan", "没有待确认的消息，无需计划");
pub(crate) const NOTHING_UNDER_WAY: Word =
    word("nothing is under way that could be broken off", "没有正在进行、可以中止的操作");
pub(crate) const PLAN_READY: Word = word("the plan is made", "计划已就绪");
pub(crate) const NOTHING_CHOSEN: Word = word("no row is chosen", "没有选中任何行");
pub(crate) const NOTHING_MARKED: Word = word("no entry to mark here", "这里没有可标记的行");
pub(crate) const NO_OTHER_SALE: Word = word("no sale to choose", "没有可选的秒杀");
pub(crate) const NO_FILTER: Word = word("this view has no rows to filter", "此页没有可筛选的行");
pub(crate) const TOP: Word = word("this is the first row", "已是第一行");
pub(crate) const BOTTOM: Word = word("this is the last row", "已是最后一行");
pub(crate) const ZOOM_END: Word = word("the chart shows no other time", "图表没有更多时间范围");
pub(crate) const ENGINE_GONE: Word = word(
    "the engine has stopped; what you see does not change any more",
    "引擎已停止，画面不再更新",
);
pub(crate) const DRAFT_KEPT: Word =
    word("nothing was created; the form keeps what you typed", "没有新建，已填内容保留在表单中");
pub(crate) const FORM_KEPT: Word =
    word("nothing was done; the form keeps what you typed", "未做任何操作，已填内容保留在表单中");
pub(crate) const REASON: Word = word("reason", "原因");
pub(crate) const LOCK_GONE: Word =
    word("that holder does not hold the lock any more", "该持有者已不再持有这把锁");
pub(crate) const SALE_GONE: Word =
    word("that sale is not among the listed ones any more", "该场秒杀已不在列出的秒杀中");
pub(crate) const ORDER_GONE: Word =
    word("that order is not on the newest page any more", "该订单已不在最新的页面上");
pub(crate) const CONSUMER_GONE: Word =
    word("that consumer is not there any more", "该消费者已不存在");
pub(crate) const JOB_GONE: Word = word("that job is not there any more", "该任务已不存在");
pub(crate) const COUNT_GIVEN_UP: Word = word(
    "the dead letters are not counted any more; nothing was done",
    "已放弃统计死信，未做任何操作",
);
pub(crate) const CANCELLED: Word = word("nothing was done", "未做任何操作");

pub(crate) fn unanswered() -> String {
    let key = key_of(Action::Activity);
    tell!(
        "the engine stopped before it answered; look in Activity ({key}) what was done before repeating it",
        "引擎未答复就停止了，请先在动态（{key}）中核对结果再重试"
    )
}

/// It names the key that goes on in a field as well, where one does both.
pub(crate) fn reason_hint() -> String {
    let on = footer(Context::Confirm).find(|it| it.action == Action::NextPart);
    let keys = on.map_or(&[][..], |it| &it.keys[..]);
    let both = keys.iter().find(|key| lookup(Context::Form, **key) == Some(Action::NextPart));
    let key = both.or(keys.first()).map_or_else(|| key_of(Action::NextPart), |key| key.label());
    tell!("optional, for the log; {key} goes here", "可选，记入日志；按 {key} 填写")
}

/// It names the key of the help where that holds.
pub(crate) fn does_nothing(key: &str, place: Context) -> String {
    if !actions(place).contains(&Action::Help) {
        return tell!("{key} does nothing here", "{key} 在这里不起作用");
    }
    let help = key_of(Action::Help);
    tell!(
        "{key} does nothing here; {help} shows the keys",
        "{key} 在这里不起作用，按 {help} 查看按键"
    )
}

/// Every view in which a key means something, with what it means there.
pub(crate) fn works_elsewhere(key: &str, meanings: &[(Action, Vec<Context>)]) -> String {
    let listed = |views: &[Context]| {
        let names: Vec<&str> = views.iter().map(|view| super::context(*view)).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => {
                format!("{}{}{last}", rest.join(&word(", ", "、")), word(" and ", "、").read())
            }
            None => String::new(),
        }
    };
    if let [(action, views)] = meanings {
        let (views, action) = (listed(views), super::action(*action).0);
        return tell!("{key} ({action}) works in {views}", "{key}（{action}）用于{views}");
    }
    let each = meanings.iter().map(|(action, views)| {
        let (views, action) = (listed(views), super::action(*action).0);
        tell!("{views} ({action})", "{views}（{action}）")
    });
    let each = each.collect::<Vec<_>>().join(&word(", ", "、"));
    tell!("{key} works in {each}", "{key} 用于{each}")
}

fn name(sale: &SaleLine) -> String {
    sale_name(sale.voucher_id, &sale.title)
}

/// Why an act makes no sense in the sale's phase.
pub(crate) fn no_use(sale: &SaleLine) -> String {
    let (id, pause) = (sale.voucher_id, key_of(Action::Pause));
    match sale.phase {
        Phase::Ended | Phase::Archived => {
            tell!("#{id} has ended; it can't be changed any more", "#{id} 已结束，不能再改动")
        }
        Phase::Running => tell!("#{id} is running already", "#{id} 已在进行中"),
        Phase::SoldOut => tell!("#{id} has started and is sold out", "#{id} 已开始并已售罄"),
        Phase::Paused => {
            tell!("#{id} is paused; {pause} lets it go on", "#{id} 已暂停，按 {pause} 恢复")
        }
        Phase::Planned => tell!("#{id} has not started yet", "#{id} 尚未开始"),
    }
}

/// Why an act on a sale is not even asked about.
pub(crate) fn not_now(away: &str) -> String {
    tell!("{away}; ask again when it is back", "{away}，恢复后再试")
}

/// A question: its title, its sentences, the word on the button.
pub(crate) struct Question {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) yes: String,
}

fn question(title: Word, lines: Vec<String>, yes: Word) -> Question {
    Question { title: title.to_string(), lines, yes: yes.to_string() }
}

fn left(sale: &SaleLine) -> String {
    let left = super::left_in_redis(sale);
    let (pieces, initial) = (counted(sale.initial, "piece", "pieces"), thousands(sale.initial));
    tell!("{left} of {pieces}", "{left} / {initial} 件")
}

pub(crate) fn start(sale: &SaleLine) -> Question {
    let left = left(sale);
    let told = tell!(
        "{left} open to buyers at once, before the planned time.",
        "{left}立即开放抢购，早于计划时间。"
    );
    question(
        word("Start the sale now?", "立即开始这场秒杀？"),
        vec![name(sale), told],
        word("Start", "开始"),
    )
}

pub(crate) fn pause(sale: &SaleLine) -> Question {
    let left = left(sale);
    let told = tell!(
        "{left} left. Buyers are turned away until it goes on; orders that were admitted are still written.",
        "剩余 {left}。恢复之前买家一律被拒；已准入的订单照常落库。"
    );
    question(
        word("Pause the sale?", "暂停这场秒杀？"),
        vec![name(sale), told],
        word("Pause", "暂停"),
    )
}

pub(crate) fn resume(sale: &SaleLine) -> Question {
    let left = left(sale);
    let told = tell!(
        "{left} open to buyers again, within its window.",
        "{left}在起止时间内重新开放抢购。"
    );
    question(
        word("Let the sale go on?", "恢复这场秒杀？"),
        vec![name(sale), told],
        word("Resume", "恢复"),
    )
}

/// Nobody can take it back.
pub(super) const FOR_GOOD: Word = word("This can't be undone.", "此操作无法撤销。");

pub(crate) fn end(sale: &SaleLine) -> Question {
    let left = left(sale);
    let told = tell!(
        "{left} unsold; buyers are refused from now on.",
        "未售出 {left}；从现在起买家一律被拒。"
    );
    question(
        word("End the sale for good?", "永久结束这场秒杀？"),
        vec![name(sale), told, FOR_GOOD.to_string()],
        word("End", "结束"),
    )
}

/// The exact plan of a rush, a sentence each.
pub(crate) fn rush_plan(plan: &RushPlan) -> Vec<String> {
    let again = plan.twice();
    let (requests, buyers) = (plan.users + again, plan.users);
    let most = thousands(plan.concurrency as u64);
    let pace = plan.rate.map(figures::rate);
    let first = match spoken() {
        Lang::En => format!(
            "{} by {}, {} of them twice.",
            counted(requests, "request", "requests"),
            counted(buyers, "buyer", "buyers"),
            thousands(again),
        ),
        Lang::Zh => format!(
            "{} 位买家共 {} 次请求，其中 {} 位请求两次。",
            thousands(buyers),
            thousands(requests),
            thousands(again),
        ),
    };
    let pace = pace.unwrap_or_else(|| tell!("as fast as it goes", "速度不限"));
    vec![
        first,
        tell!("At most {most} under way at once, {pace}.", "最多 {most} 个同时进行，{pace}。"),
    ]
}

/// A sale that is to be; its times as the person's clock shows them.
pub(crate) fn create(sale: &NewSale, begin: Option<&str>, end: Option<&str>) -> Question {
    let (count, limit) = (thousands(sale.stock), u64::from(sale.limit));
    let (pieces, orders) =
        (counted(sale.stock, "piece", "pieces"), counted(limit, "order", "orders"));
    let stock = tell!(
        "{pieces}; a user may hold {orders} at most.",
        "{count} 件，每位用户最多持有 {limit} 笔订单。"
    );
    let begin = match begin {
        Some(begin) => tell!("It opens to buyers on {begin}.", "{begin} 开放抢购。"),
        None => tell!("It is open to buyers at once.", "立即开放抢购。"),
    };
    let end = match end {
        Some(end) => tell!("It ends on {end}.", "{end} 结束。"),
        None => tell!("It has no end.", "不设结束时间。"),
    };
    let lines = vec![sale.title.clone(), stock, begin, end];
    question(word("Create this sale?", "新建这场秒杀？"), lines, word("Create", "新建"))
}

/// Why there is no form for another sale now.
pub(crate) fn creating(title: &str) -> String {
    tell!(
        "{title} is being created; another sale waits until the engine has answered",
        "正在新建 {title}，引擎答复后才能再新建"
    )
}

pub(crate) fn rush(sale: &SaleLine, plan: &RushPlan) -> Question {
    let mut lines = vec![name(sale)];
    lines.extend(rush_plan(plan));
    let left = left(sale);
    lines.push(match sale.phase {
        Phase::Running => tell!(
            "{left} left. Orders are real: they take stock.",
            "剩余 {left}。订单是真实的，会占用库存。"
        ),
        Phase::SoldOut => {
            tell!(
                "Nothing is left: every buyer will find it sold out.",
                "已无库存：每位买家都会遇到售罄。"
            )
        }
        Phase::Paused => {
            tell!(
                "The sale is paused: every buyer will be turned away.",
                "秒杀已暂停：每位买家都会被拒。"
            )
        }
        Phase::Planned => {
            tell!(
                "The sale has not started: buyers will be turned away.",
                "秒杀尚未开始：买家会被拒。"
            )
        }
        Phase::Ended | Phase::Archived => {
            tell!(
                "The sale has ended: every buyer will be turned away.",
                "秒杀已结束：每位买家都会被拒。"
            )
        }
    });
    question(word("Send simulated buyers?", "派出模拟买家？"), lines, word("Rush", "开抢"))
}

/// What a plan comes to, a line for each verdict.
///
/// `shown` is what a filter shows, where the plan is about all; `takeover_ms` is when live nodes begin to take entries over
/// by themselves.
pub(crate) fn plan(plan: &Plan, shown: Option<usize>, takeover_ms: Option<u64>) -> Question {
    let totals = &plan.totals;
    let (count, entries) = (thousands(totals.entries), counted(totals.entries, "entry", "entries"));
    let mut lines = vec![if let Some(shown) = shown {
        let shown = thousands(shown as u64);
        tell!(
            "All {count}, not only the {shown} that the filter shows.",
            "全部 {count} 条，不只是筛选出的 {shown} 条。"
        )
    } else if plan.head.filter.is_empty() {
        tell!("{entries}, all that are pending.", "{count} 条消息，即全部待确认。")
    } else {
        tell!("{entries}, those that are marked.", "{count} 条消息，即已标记的。")
    }];
    for total in &totals.verdicts {
        let (verdict, act) = (super::verdict(total.verdict), super::act(total.act));
        let count = thousands(total.entries);
        lines.push(tell!("{count:>9}  {verdict}: {act}", "{count:>9}  {verdict}：{act}"));
    }
    let books = &totals.books;
    let (pending, letters) = (thousands(books.pending.after), thousands(books.dead.after));
    let (orders, rebuilt) = (thousands(books.persisted.after), thousands(books.rebuilt));
    let mut after = match spoken() {
        Lang::En => format!(
            "Then: {pending} pending, {}, {} in SQL.",
            counted(books.dead.after, "dead letter", "dead letters"),
            counted(books.persisted.after, "order", "orders"),
        ),
        Lang::Zh => {
            format!("完成后：待确认 {pending} 条，死信 {letters} 条，SQL 中订单 {orders} 笔。")
        }
    };
    if books.rebuilt > 0 {
        after += &tell!(" {rebuilt} go into the stream again.", "{rebuilt} 条重新进入消息流。");
    }
    lines.push(after);
    lines.extend(takeover_ms.map(recovery::takeover));
    question(word("Apply this plan?", "执行这个计划？"), lines, word("Apply", "执行"))
}

pub(crate) fn nothing_to_do(plan: &Plan) -> String {
    let held = thousands(plan.totals.entries);
    match plan.totals.entries {
        0 => tell!("none of them is pending any more", "这些消息都已不再待确认"),
        _ => tell!(
            "{held} in the hands of live nodes; nothing to do",
            "{held} 条由在线节点处理中，无需操作"
        ),
    }
}

pub(crate) fn break_off(line: &RecoveryLine) -> Question {
    let act = super::act_name(&line.act);
    let (done, planned) = (thousands(line.done), thousands(line.planned));
    question(
        word("Break it off?", "中止它？"),
        vec![
            tell!("{act}: {done} of {planned}.", "{act}：{done} / {planned}。"),
            tell!(
                "The step in hand is finished; what was done stays done. A new plan goes on with the rest.",
                "当前一步会做完，已完成的保持不变；其余的可用新计划继续。"
            ),
        ],
        word("Break off", "中止"),
    )
}

pub(crate) fn release(lock: &Holder) -> Question {
    let Holder { name, node, task, .. } = lock;
    let (count, wait) = (thousands(lock.waiting), counted(lock.waiting, "waits", "wait"));
    let waiting = match lock.waiting {
        0 => tell!("Nobody waits for it.", "没有人在等它。"),
        _ => tell!("{wait} for it; one of them takes it.", "{count} 个在等，其中一个将取得它。"),
    };
    let holder = match (lock.orphan, lock.known) {
        (true, _) => tell!("Its holder {node} gives no sign of life.", "持有者 {node} 已失联。"),
        (false, true) => tell!(
            "Its holder {node} is alive: its work is cancelled, and what it writes late is refused.",
            "持有者 {node} 在线：其工作会被取消，迟到的写入会被拒绝。"
        ),
        (false, false) => tell!(
            "Its holder {node} is no node here and may be at work: that is cancelled, and what it writes late is refused.",
            "持有者 {node} 不是此处的节点，可能仍在工作：其工作会被取消，迟到的写入会被拒绝。"
        ),
    };
    let held = if task.is_empty() {
        tell!("'{name}', held by {node}.", "“{name}”，由 {node} 持有。")
    } else {
        tell!("'{name}', held by {node} ({task}).", "“{name}”，由 {node}（{task}）持有。")
    };
    question(
        word("Take the lock from its holder?", "从持有者手中收回这把锁？"),
        vec![held, holder, waiting],
        word("Release", "释放"),
    )
}

pub(crate) fn run_job(job: &JobLine) -> Question {
    let about = super::about(job);
    let lines = vec![
        job.name.clone(),
        tell!("It will {about}.", "内容：{about}。"),
        tell!(
            "It runs at once on this node, unless it runs somewhere already.",
            "立即在本节点运行，除非别处已在运行。"
        ),
    ];
    question(word("Run the job now?", "立即运行这个任务？"), lines, word("Run", "运行"))
}

pub(crate) fn switch_job(job: &JobLine) -> Question {
    let (title, line, yes) = if job.paused {
        (
            word("Let the job go on?", "恢复这个任务？"),
            word(
                "It is due again by its schedule; what was due meanwhile is not made up for.",
                "之后按计划运行；暂停期间错过的不补跑。",
            ),
            word("Resume", "恢复"),
        )
    } else {
        (
            word("Pause the job?", "暂停这个任务？"),
            word(
                "It is not run any more on any node until it is resumed.",
                "恢复之前，任何节点都不再运行它。",
            ),
            word("Pause", "暂停"),
        )
    };
    question(title, vec![job.name.clone(), line.to_string()], yes)
}

pub(crate) fn quit_act(act: &str, done: u64, planned: u64) -> Question {
    let (act, done, planned) = (super::act_name(act), thousands(done), thousands(planned));
    question(
        word("Quit while an act is under way?", "操作进行中，仍要退出？"),
        vec![
            tell!("{act}: {done} of {planned} done.", "{act}：已完成 {done} / {planned}。"),
            tell!(
                "The step in hand is finished, the rest stays as it is; a new plan goes on with it.",
                "当前一步会做完，其余保持原样，可用新计划继续。"
            ),
        ],
        word("Quit", "退出"),
    )
}

pub(crate) fn quit(sent: u64, planned: u64) -> Question {
    let requests = counted(planned, "request", "requests");
    let (sent, planned) = (thousands(sent), thousands(planned));
    question(
        word("Quit while a rush is under way?", "模拟抢购进行中，仍要退出？"),
        vec![
            tell!("{sent} of {requests} sent.", "已发出 {sent} / {planned} 次请求。"),
            tell!(
                "The rest is not sent. Orders that were admitted stay in the stream and are written by the next engine.",
                "其余的不再发出。已准入的订单留在消息流中，由下一个引擎落库。"
            ),
        ],
        word("Quit", "退出"),
    )
}

/// Told while the engine works on it.
pub(crate) mod asked {
    use super::{NewSale, RushPlan, VoucherId, Word, counted, tell, thousands, word};

    pub(crate) fn create(sale: &NewSale) -> String {
        let title = &sale.title;
        tell!("creating {title}", "正在新建 {title}")
    }

    pub(crate) fn change(voucher: VoucherId) -> String {
        tell!("changing #{voucher}", "正在更改 #{voucher}")
    }

    pub(crate) fn rush(plan: &RushPlan) -> String {
        let (users, voucher) = (thousands(plan.users), plan.voucher);
        let come = counted(plan.users, "buyer is", "buyers are");
        tell!("{come} on the way to #{voucher}", "{users} 位买家正在赶往 #{voucher}")
    }

    pub(crate) fn job(name: &str) -> String {
        tell!("{name} is running", "{name} 运行中")
    }

    pub(crate) const PLAN: Word = word("looking at each entry", "正在逐条检查消息");
    pub(crate) const APPLY: Word = word("applying the plan", "正在执行计划");
    pub(crate) const LETTERS: Word = word("looking at each dead letter", "正在逐条检查死信");
    pub(crate) const ACT: Word = word("asking the engine", "正在请求引擎");
}
