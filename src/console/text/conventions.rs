//! Words of what holds in every table: order, filter, copies, the mouse, keys of one's own, and why a key does nothing.

use super::{
    actions::Told,
    figures::thousands,
    lang::{Word, tell, word},
};
use crate::keymap::{Action, Context, footer, key_of};

/// A word for the footer, a sentence for the help screen, and a name for the palette.
pub(super) fn action(action: Action) -> Told {
    let (short, long, name) = match action {
        Action::SortNext => (
            word("order", "排序"),
            word("order the rows by the next column", "按下一列排序"),
            word("order", "排序"),
        ),
        Action::SortTurn => (
            word("turn", "反序"),
            word("turn the order round", "颠倒排序方向"),
            word("turn order", "反序"),
        ),
        Action::CopyName => (
            word("copy", "复制"),
            word("copy the row's id or name", "复制所选行的 ID 或名称"),
            word("copy", "复制"),
        ),
        Action::CopyRow => (
            word("copy row", "复制整行"),
            word("copy the row as exported", "复制整行，同导出"),
            word("copy row", "复制整行"),
        ),
        _ => (
            word("mouse", "鼠标"),
            word("the mouse chooses, or not", "启用或停用鼠标"),
            word("mouse", "鼠标"),
        ),
    };
    (short, long, Some(name))
}

pub(crate) const NO_TABLE: Word = word("this view has no table", "本页没有表格");
pub(crate) const MOUSE_ON: Word = word(
    "the mouse chooses rows and tabs; the terminal selects text again without it",
    "鼠标可选择行和页签；停用后终端恢复选取文字",
);
pub(crate) const MOUSE_OFF: Word = word("the mouse is the terminal's again", "鼠标已交还终端");
pub(crate) const OWN_ORDER: Word =
    word("the rows stand in their own order again", "已恢复默认顺序");
pub(crate) const ORDER_DROPPED: Word = word(
    "more came than one page holds: the rows stand in the order of their ids again",
    "消息已超过一页，恢复按 ID 排序",
);
pub(crate) const ONE_ORDER: Word = word("these rows stand in one order only", "这些行只有一种顺序");
pub(crate) const STREAM_ORDER: Word = word(
    "a stream stands in the order in which it is delivered, and in no other",
    "消息流只按投递的先后排列",
);
pub(crate) const RECENT: Word = word("used before", "最近使用");

pub(crate) fn read_first() -> String {
    let key = key_of(Action::Accept);
    tell!(
        "that question has only just come; read it, then press {key} again",
        "问题刚刚出现；请先看清再按 {key}"
    )
}

pub(crate) fn ordered(head: &str, falling: bool) -> String {
    if falling {
        tell!("ordered by {head}, descending", "按 {head} 降序")
    } else {
        tell!("ordered by {head}, ascending", "按 {head} 升序")
    }
}

/// In the heading of a page that stands in an order of its own.
pub(crate) fn sorted_page(head: &str, rows: usize) -> String {
    let (head, rows) = (head.to_lowercase(), thousands(rows as u64));
    tell!("sorted by {head}, of these {rows}", "仅本页 {rows} 条按{head}排序")
}

pub(crate) fn no_order() -> String {
    let key = key_of(Action::SortNext);
    tell!("no column is chosen; {key} chooses one", "未选择排序列；按 {key} 选择")
}

/// Why a list that is read in pages keeps its order.
pub(crate) fn in_pages(total: u64) -> String {
    let total = thousands(total);
    tell!(
        "{total} are read in pages by id, and a page in another order would hide the rest; a list of one page can be ordered",
        "共 {total} 条，按 ID 分页读取；只有一页时才能按其他列排序"
    )
}

pub(crate) fn copied(what: &str) -> String {
    tell!("copied: {what}", "已复制：{what}")
}

/// What tmux does not pass on to the terminal is copied nowhere.
pub(crate) fn copied_in_tmux(what: &str, setting: &str) -> String {
    tell!(
        "copied: {what}; tmux passes it on only with '{setting}'",
        "已复制：{what}；tmux 设置 '{setting}' 后才会传出"
    )
}

pub(crate) fn cut(kept: usize) -> String {
    let kept = thousands(kept as u64);
    tell!(
        "the paste was cut: a field takes {kept} characters",
        "粘贴内容已截断：一个字段最多 {kept} 个字符"
    )
}

pub(crate) const NOTHING_PENDING: Word = word("nothing is pending", "没有待确认的消息");

pub(crate) fn nothing_chosen() -> String {
    let (up, down) = (key_of(Action::Up), key_of(Action::Down));
    tell!("no row is chosen; {up} and {down} choose one", "未选择任何行；按 {up} {down} 选择")
}

pub(crate) fn nothing_open() -> String {
    let key = key_of(Action::Open);
    tell!("no detail is open; {key} opens one", "没有打开的详情；按 {key} 打开")
}

/// Why nothing is read now that the picture does not hold.
pub(crate) fn frozen() -> String {
    let key = key_of(Action::Freeze);
    tell!(
        "the picture is frozen; {key} lets it go on, and then more can be read",
        "画面已冻结，按 {key} 恢复刷新后才能读取其他内容"
    )
}

/// An act is about one sale, and nobody said which.
pub(crate) fn choose_sale(again: Action) -> String {
    let [up, down, again] = [Action::Up, Action::Down, again].map(key_of);
    tell!(
        "choose the sale that is meant by {up} and {down}, then press {again} again",
        "请先按 {up} {down} 选中要操作的秒杀，再按一次 {again}"
    )
}

/// What an act waited for has come while something lies over the view.
pub(crate) fn behind(told: Word, over: Context, again: Action) -> String {
    let close = footer(over).find(|it| it.action == Action::Cancel);
    let close = close.and_then(|it| it.keys.first());
    let close = close.map_or_else(|| key_of(Action::Cancel), |it| it.label());
    let again = key_of(again);
    tell!(
        "{told}; {close} closes this, then press {again} again",
        "{told}，按 {close} 关闭此处，再按一次 {again}"
    )
}

pub(crate) fn read_only() -> String {
    tell!(
        "read-only: acts are refused; start without --read-only for them",
        "只读模式：拒绝操作；去掉 --read-only 重新启动即可"
    )
}

/// The label of the number that has to be typed.
pub(crate) fn type_number(count: u64) -> String {
    let count = thousands(count);
    tell!("Type {count} to go on", "输入 {count} 以继续")
}

/// The number is right: Enter does the act.
pub(crate) fn number_typed(count: u64) -> String {
    let (count, press) = (thousands(count), key_of(Action::Press));
    tell!("{count}: {press} does it", "{count}：按 {press} 执行")
}

pub(crate) fn number_first(count: u64) -> String {
    let (count, press) = (thousands(count), key_of(Action::Press));
    tell!(
        "this is about {count}: type that number, then {press}",
        "涉及 {count} 条：请先输入该数字，再按 {press}"
    )
}

pub(crate) fn only_in(views: &str) -> String {
    tell!("in {views}", "见 {views}")
}
