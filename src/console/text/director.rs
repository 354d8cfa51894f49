//! Words of the sale director: what is armed, what will happen and when, and why it was called off.

use seckill_engine::telemetry::snapshot::Health;
use seckill_model::VoucherId;

use super::{
    actions::Told,
    acts::Question,
    figures::{clock, counted, span, thousands},
    lang::{Word, tell, word},
};
use crate::{
    director::{Launch, Target},
    keymap::{Action, key_of},
};

pub(crate) const FORM: Word = word("Arm a launch", "预备开抢");
pub(crate) const SALE: Word = word("Sale", "秒杀");
pub(crate) const SALE_HINT: Word =
    word("number of a planned sale, or a new title", "未开始的秒杀编号；填标题则新建");
pub(crate) const STOCK: Word = word("Stock", "库存");
pub(crate) const STOCK_HINT: Word =
    word("pieces of a new sale; else leave it empty", "新秒杀的件数；已有秒杀留空");
pub(crate) const BUYERS: Word = word("Buyers", "买家");
pub(crate) const WITHIN: Word = word("Within", "历时");
pub(crate) const WITHIN_HINT: Word =
    word("seconds over which they come; 0: no limit", "全部到场的秒数，0 为速度不限");
pub(crate) const COUNTDOWN: Word = word("Start in", "倒计时");
pub(crate) const COUNTDOWN_HINT: Word =
    word("seconds, 1 to 3,600; nothing comes before", "秒数，1 到 3,600，结束前不做任何事");

pub(crate) const NONE_ARMED: Word = word("no launch is armed", "没有预备中的开抢");
pub(crate) const NOTHING_TO_STOP: Word =
    word("no launch is armed and no rush is under way", "没有预备中的开抢，也没有进行中的模拟抢购");
pub(crate) const OPENING: Word =
    word("the sale is being opened; its buyers come next", "正在开始秒杀，随后派出买家");
pub(crate) const WITHDRAWN: Word = word(
    "no buyers will come; the sale is paused as soon as it is open",
    "不再派出买家，秒杀开始后立即暂停",
);
pub(crate) const OWN_STOCK: Word =
    word("a planned sale has its own stock; leave this empty", "已有秒杀自带库存，请留空");

pub(super) fn action(action: Action) -> Told {
    match action {
        Action::Arm => (
            word("launch", "预备"),
            word("arm a sale with its rush", "预备秒杀和买家，倒计时开抢"),
            Some(word("arm a launch", "预备开抢")),
        ),
        Action::Fire => (
            word("fire", "开抢"),
            word("start what is armed at once", "不等倒计时，立即开抢"),
            Some(word("fire the launch", "立即开抢")),
        ),
        Action::Abort => (
            word("halt", "叫停"),
            word("disarm, or stop the rush and pause", "取消预备，或停止买家并暂停"),
            Some(word("abort the launch", "叫停开抢")),
        ),
        _ => super::presenter::action(),
    }
}

pub(crate) fn several_rushes() -> String {
    let [up, down, again] = [Action::Up, Action::Down, Action::Abort].map(key_of);
    tell!(
        "several sales are rushed; choose one by {up} and {down}, then press {again} again",
        "有多场秒杀正在模拟抢购，请先按 {up} {down} 选中一场，再按一次 {again}"
    )
}

pub(crate) fn armed_already() -> String {
    let abort = key_of(Action::Abort);
    tell!("a launch is armed; {abort} calls it off first", "已有预备中的开抢，先按 {abort} 取消")
}

pub(crate) fn fire_hint() -> String {
    let arm = key_of(Action::Arm);
    tell!("{NONE_ARMED}; {arm} arms one", "{NONE_ARMED}，按 {arm} 预备")
}

/// Under the field of the sale: which one its number means.
pub(crate) fn planned(title: &str, initial: u64) -> String {
    let (pieces, count) = (counted(initial, "piece", "pieces"), thousands(initial));
    tell!("{title}, {pieces}", "{title}，{count} 件")
}

/// The same where it means none.
pub(crate) fn not_planned(id: VoucherId) -> String {
    tell!(
        "#{id} is no planned sale; a title makes a new one",
        "#{id} 不是未开始的秒杀；填标题可新建"
    )
}

/// Under the countdown.
pub(crate) fn opens_before(left_ms: u64) -> String {
    let left = clock(left_ms);
    tell!("it opens by itself in {left}; give less", "它将在 {left} 后自行开始，请填更小的值")
}

/// What is sold, in a few words.
fn subject(launch: &Launch) -> String {
    let title = &launch.title;
    match launch.target {
        Target::Planned(id) => super::sale_name(id, title),
        Target::New => tell!("new sale '{title}'", "新秒杀“{title}”"),
    }
}

fn buyers(count: u64) -> String {
    let (plain, buyers) = (thousands(count), counted(count, "buyer", "buyers"));
    tell!("{buyers}", "{plain} 位买家")
}

/// For the top line of every view: what is armed.
pub(crate) fn badge(launch: &Launch, ids: bool) -> String {
    let subject = if ids { subject(launch) } else { launch.title.clone() };
    let buyers = buyers(launch.buyers);
    tell!("{subject}, {buyers}", "{subject}，{buyers}")
}

pub(crate) fn armed_in(left_ms: u64) -> String {
    let left = clock(left_ms);
    tell!("ARMED {left}", "已预备 {left}")
}

pub(crate) const OPENS: Word = word("OPENING", "正在开始");

/// What comes of the countdown's end, a sentence each.
fn what_happens(launch: &Launch) -> Vec<String> {
    let (count, title) = (thousands(launch.pieces), &launch.title);
    let pieces = counted(launch.pieces, "piece", "pieces");
    let first = match launch.target {
        Target::Planned(id) => tell!(
            "#{id} opens with {pieces}, before its planned time.",
            "#{id} 开始，{count} 件，早于计划时间。"
        ),
        Target::New => tell!(
            "The sale '{title}' is created with {pieces}, open at once.",
            "新建秒杀“{title}”，{count} 件，立即开放。"
        ),
    };
    let (buyers, seconds) = (buyers(launch.buyers), thousands(launch.within));
    let come = match launch.buyers {
        1 => "comes",
        _ => "come",
    };
    let twice = match launch.twice() {
        0 => String::new(),
        twice => {
            let twice = thousands(twice);
            tell!(", {twice} of them twice", "，其中 {twice} 位请求两次")
        }
    };
    let second = match launch.within {
        0 => tell!(
            "Then {buyers} {come} as fast as it goes{twice}.",
            "随后 {buyers}全速到场{twice}。"
        ),
        _ => tell!(
            "Then {buyers} {come} within {seconds} s{twice}.",
            "随后 {buyers}在 {seconds} 秒内到场{twice}。"
        ),
    };
    let real = tell!("Orders are real: they take stock.", "订单是真实的，会占用库存。");
    vec![first, second, real]
}

pub(crate) fn ask_arm(launch: &Launch) -> Question {
    let (seconds, abort) = (thousands(launch.countdown), key_of(Action::Abort));
    let mut lines = vec![tell!(
        "{seconds} s after your yes, by the clock of Redis:",
        "确认后 {seconds} 秒，以 Redis 时钟为准："
    )];
    lines.extend(what_happens(launch));
    lines.push(tell!(
        "Until then nothing is done, and {abort} calls it off.",
        "在此之前不做任何事，按 {abort} 可取消。"
    ));
    let (title, yes) = (word("Arm this launch?", "预备这次开抢？"), word("Arm", "预备"));
    Question { title: title.to_string(), lines, yes: yes.to_string() }
}

pub(crate) fn ask_fire(launch: &Launch) -> Question {
    let mut lines =
        vec![tell!("At once, without waiting for the countdown:", "立即执行，不等倒计时结束：")];
    lines.extend(what_happens(launch));
    let (title, yes) = (word("Fire the launch now?", "立即开抢？"), word("Fire", "开抢"));
    Question { title: title.to_string(), lines, yes: yes.to_string() }
}

pub(crate) fn ask_disarm(launch: &Launch) -> Question {
    let lines = vec![
        badge(launch, true),
        tell!(
            "No sale is opened by it and no buyers come. The countdown goes on until your yes.",
            "不会开始秒杀，也不派买家。确认之前倒计时照常进行。"
        ),
    ];
    let (title, yes) =
        (word("Call the launch off?", "取消这次开抢？"), word("Call off", "取消开抢"));
    Question { title: title.to_string(), lines, yes: yes.to_string() }
}

/// The question while buyers come: how far they are, and whether the sale is held as well.
pub(crate) fn ask_abort(name: &str, sent: u64, planned: u64, pauses: bool) -> Question {
    let requests = counted(planned, "request", "requests");
    let (sent, planned) = (thousands(sent), thousands(planned));
    let mut lines = vec![
        name.to_owned(),
        tell!(
            "{sent} of {requests} sent; no more will be.",
            "已发出 {sent} / {planned} 次请求，其余不再发出。"
        ),
    ];
    if pauses {
        lines.push(tell!(
            "The sale is paused: buyers are turned away until it goes on.",
            "秒杀暂停：恢复之前买家一律被拒。"
        ));
    }
    lines.push(tell!("Orders that were admitted are still written.", "已准入的订单照常落库。"));
    let title = word("Stop the rush?", "停止模拟抢购？");
    let paused = word("Stop the rush and pause the sale?", "停止模拟抢购并暂停秒杀？");
    let title = if pauses { paused } else { title };
    Question { title: title.to_string(), lines, yes: word("Stop", "叫停").to_string() }
}

pub(crate) fn ask_quit(launch: &Launch) -> Question {
    let armed = badge(launch, true);
    let lines =
        vec![armed, tell!("It is called off: nothing is started.", "将被取消，不会开始任何秒杀。")];
    let (title, yes) =
        (word("Quit while a launch is armed?", "开抢预备中，仍要退出？"), word("Quit", "退出"));
    Question { title: title.to_string(), lines, yes: yes.to_string() }
}

pub(crate) fn armed(launch: &Launch) -> String {
    let (subject, seconds) = (subject(launch), thousands(launch.countdown));
    let abort = key_of(Action::Abort);
    tell!(
        "armed: {subject} starts in {seconds} s; {abort} calls it off",
        "已预备：{subject}将在 {seconds} 秒后开抢，按 {abort} 取消"
    )
}

pub(crate) fn disarmed(launch: &Launch) -> String {
    let subject = subject(launch);
    tell!(
        "called off: {subject} was not started, and nothing was done",
        "已取消：{subject}没有开始，未做任何操作"
    )
}

const REDIS_AWAY: Word = word("Redis does not answer", "Redis 无应答");
const REDIS_UNWRITABLE: Word = word("Redis takes no writes", "Redis 不接受写入");
const SQL_AWAY: Word = word("the database does not answer", "数据库无应答");
const SQL_UNWRITABLE: Word = word("the database takes no writes", "数据库不接受写入");

/// The server that an act on a sale waits for in vain.
pub(crate) fn away(redis: &Health, sql: &Health) -> Option<Word> {
    if !redis.up {
        return Some(REDIS_AWAY);
    }
    if !redis.takes_writes() {
        return Some(REDIS_UNWRITABLE);
    }
    match sql {
        sql if !sql.up => Some(SQL_AWAY),
        sql if !sql.takes_writes() => Some(SQL_UNWRITABLE),
        _ => None,
    }
}

/// Why a launch could not be.
pub(crate) enum Off {
    Gone,
    Changed,
    /// It has so many pieces by now.
    Stock(u64),
    Early,
    Late(u64),
    Away(Word),
}

/// It is off, why, and the next step.
pub(crate) fn off(launch: &Launch, why: &Off) -> String {
    let subject = subject(launch);
    let arm = key_of(Action::Arm);
    let why = match why {
        Off::Gone => tell!("it is no longer listed", "它已不在列表中"),
        Off::Changed => tell!("it is not planned any more", "它已不是未开始的状态"),
        Off::Stock(pieces) => {
            let (now, asked) = (thousands(*pieces), thousands(launch.pieces));
            tell!(
                "its stock is {now} and not {asked} any more",
                "它的库存现为 {now}，已不是 {asked}"
            )
        }
        Off::Early => {
            tell!("it opens by itself before the countdown ends", "它会在倒计时结束前自行开始")
        }
        Off::Late(ms) => {
            let late = span(*ms);
            tell!("the console stood still and is {late} late", "控制台曾停住，已晚了 {late}")
        }
        Off::Away(server) => server.to_string(),
    };
    tell!(
        "launch of {subject} called off, nothing was started: {why}; {arm} arms another",
        "{subject}的开抢已取消，没有开始：{why}；按 {arm} 可重新预备"
    )
}

pub(crate) fn rush_stopped(voucher: VoucherId, rushes: u64) -> (String, bool) {
    match rushes {
        0 => {
            (tell!("no rush on #{voucher} was under way", "#{voucher} 没有进行中的模拟抢购"), false)
        }
        _ => (tell!("no more buyers come to #{voucher}", "不再有买家前往 #{voucher}"), true),
    }
}

pub(crate) fn stopping(voucher: VoucherId) -> String {
    tell!("stopping the rush on #{voucher}", "正在停止 #{voucher} 的模拟抢购")
}
