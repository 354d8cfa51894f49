//! Words of what keys do: one for the footer, a sentence for the help screen, a name for the palette.

use super::{
    conventions, director,
    lang::{Word, word},
    ledger, orders, presenter, stream,
};
use crate::keymap::{Action, Context};

/// A word for the footer, a sentence for the help screen, and a name for the palette; each in both languages.
pub(super) type Told = (Word, Word, Option<Word>);

/// A word for the footer, a sentence for the help screen, and a name for the palette.
pub(crate) fn action(action: Action) -> (&'static str, &'static str, Option<&'static str>) {
    let (key, meaning, name) = told(action);
    (key.read(), meaning.read(), name.map(Word::read))
}

/// Its name in the palette in English, by which it is found in every language.
pub(crate) fn english_name(action: Action) -> Option<&'static str> {
    told(action).2.map(Word::english)
}

fn told(action: Action) -> Told {
    match action {
        Action::Stream
        | Action::Rewind
        | Action::Claim
        | Action::RemoveConsumer
        | Action::Pane
        | Action::Partition
        | Action::Users => stream::action(action),
        Action::SortNext
        | Action::SortTurn
        | Action::CopyName
        | Action::CopyRow
        | Action::Mouse => conventions::action(action),
        Action::Orders | Action::Pay | Action::NextPage | Action::PreviousPage => {
            orders::action(action)
        }
        Action::Ledger | Action::Repair => ledger::action(action),
        Action::Present | Action::Arm | Action::Fire | Action::Abort => director::action(action),
        Action::Help => {
            (word("help", "帮助"), word("this screen", "本帮助"), Some(word("help", "帮助")))
        }
        Action::Palette => {
            (word("command", "命令"), word("ask for an act by its name", "按名称查找操作"), None)
        }
        Action::Filter => (
            word("filter", "筛选"),
            word("only rows with a text, !text without", "只显示含某段文字的行，! 取反"),
            Some(word("filter", "筛选")),
        ),
        Action::Overview => (
            word("overview", "总览"),
            word("go to the Overview", "转到总览"),
            Some(word("overview", "总览")),
        ),
        Action::Sales => {
            (word("sales", "秒杀"), word("go to Sales", "转到秒杀"), Some(word("sales", "秒杀")))
        }
        Action::Pending => (
            word("pending", "待确认"),
            word("go to Pending", "转到待确认"),
            Some(word("pending", "待确认")),
        ),
        Action::Letters => (
            word("dead", "死信"),
            word("go to Dead letters", "转到死信"),
            Some(word("dead letters", "死信")),
        ),
        Action::Locks => {
            (word("locks", "锁"), word("go to Locks", "转到锁"), Some(word("locks", "锁")))
        }
        Action::Jobs => (
            word("jobs", "定时任务"),
            word("go to Jobs", "转到定时任务"),
            Some(word("jobs", "定时任务")),
        ),
        Action::NextView => (word("next", "下一页签"), word("next view", "下一个页签"), None),
        Action::PreviousView => {
            (word("previous", "上一页签"), word("previous view", "上一个页签"), None)
        }
        Action::Up => (word("up", "上移"), word("one up", "上移一行"), None),
        Action::Down => (word("more", "下移"), word("one down", "下移一行"), None),
        Action::PageUp => (
            word("page up", "上翻"),
            word("a screen up, then the page before", "上翻一屏，到顶后翻到上一页"),
            None,
        ),
        Action::PageDown => (
            word("page down", "下翻"),
            word("a screen down, then the page after", "下翻一屏，到底后翻到下一页"),
            None,
        ),
        Action::First => (
            word("first", "首行"),
            word("first row, then the first page", "到首行，再按到首页"),
            None,
        ),
        Action::Last => (
            word("last", "末行"),
            word("last row, then the next page", "到末行，再按到下一页"),
            None,
        ),
        Action::Open => (
            word("detail", "详情"),
            word("show all of the chosen row", "显示所选行的全部内容"),
            Some(word("detail", "详情")),
        ),
        Action::Close => (word("close", "收起"), word("close the detail", "收起详情"), None),
        Action::Back => (
            word("back", "返回"),
            word("close what is open, else to Overview", "逐个关掉打开的内容，否则回总览"),
            None,
        ),
        Action::Mark => (
            word("mark", "标记"),
            word("mark or unmark this row and go on", "标记或取消标记本行并下移"),
            Some(word("mark", "标记")),
        ),
        Action::MarkAll => (
            word("mark all", "全部标记"),
            word("mark all, or those the filter shows", "标记全部，或筛选出的行"),
            Some(word("mark all", "全部标记")),
        ),
        Action::Freeze => (
            word("freeze", "冻结"),
            word("hold the picture still, or let it go", "冻结画面，或恢复刷新"),
            Some(word("freeze", "冻结画面")),
        ),
        Action::Quit => (
            word("quit", "退出"),
            word("leave; asks first during a rush", "退出，模拟抢购进行中会先询问"),
            Some(word("quit", "退出")),
        ),
        Action::QuitNow => (word("quit", "退出"), word("leave at once", "立即退出"), None),
        Action::Suspend => (
            word("suspend", "挂起"),
            word("back to the shell; fg returns", "回到终端，输入 fg 返回"),
            None,
        ),
        Action::ZoomIn => (
            word("zoom in", "放大"),
            word("shorter time in the chart", "图表时间范围缩短"),
            Some(word("zoom in", "放大图表")),
        ),
        Action::ZoomOut => (
            word("zoom out", "缩小"),
            word("longer time in the chart", "图表时间范围加长"),
            Some(word("zoom out", "缩小图表")),
        ),
        Action::ZoomReset => (
            word("2 min", "2 分钟"),
            word("back to two minutes", "恢复为两分钟"),
            Some(word("zoom reset", "图表复位")),
        ),
        Action::Activity => (
            word("activity", "动态"),
            word("go to Activity", "转到动态"),
            Some(word("activity", "动态")),
        ),
        Action::Earlier => (
            word("earlier", "更早"),
            word("look at an earlier moment", "查看更早的时刻"),
            Some(word("earlier", "更早")),
        ),
        Action::Later => (
            word("later", "更晚"),
            word("look at a later moment", "查看更晚的时刻"),
            Some(word("later", "更晚")),
        ),
        Action::MarkBefore => (
            word("mark before", "上一事件"),
            word("the act or alarm before", "上一次操作或告警"),
            Some(word("mark before", "上一事件")),
        ),
        Action::MarkAfter => (
            word("mark after", "下一事件"),
            word("the act or alarm after", "下一次操作或告警"),
            Some(word("mark after", "下一事件")),
        ),
        Action::Level => (
            word("level", "级别"),
            word("all lines, alarms or acts", "全部、告警或操作"),
            Some(word("level", "级别")),
        ),
        Action::NewSale => (
            word("new", "新建秒杀"),
            word("create a sale", "新建一场秒杀"),
            Some(word("new sale", "新建秒杀")),
        ),
        Action::Start => (
            word("start", "开始"),
            word("open a planned sale now", "立即开始未到点的秒杀"),
            Some(word("start", "开始")),
        ),
        Action::Pause => (
            word("pause", "暂停"),
            word("hold it, or let it go on", "暂停，或恢复"),
            Some(word("pause / resume", "暂停 / 恢复")),
        ),
        Action::End => (
            word("end", "结束"),
            word("end a sale for good", "永久结束一场秒杀"),
            Some(word("end", "结束")),
        ),
        Action::Rush => (
            word("rush", "模拟抢购"),
            word("send simulated buyers to a sale", "派模拟买家抢购"),
            Some(word("rush", "模拟抢购")),
        ),
        Action::Replay => (
            word("plan", "计划"),
            word("plan what to do with entries", "为待确认消息制定处理计划"),
            Some(word("plan replay", "制定重放计划")),
        ),
        Action::ReplayLetters => (
            word("replay", "重放"),
            word("put the marked ones or this one back", "把已标记的或所选的放回消息流"),
            Some(word("replay dead letters", "重放死信")),
        ),
        Action::Discard => (
            word("discard", "丢弃"),
            word("remove those nobody waits for", "删除无人等待的死信"),
            Some(word("discard", "丢弃")),
        ),
        Action::Compensate => (
            word("give back", "退还"),
            word("cancel, give back, remove", "取消订单、退还库存并删除"),
            Some(word("give back", "退还")),
        ),
        Action::BreakOff => (
            word("break off", "中止"),
            word("end an act after its step", "做完当前一步后中止"),
            Some(word("break off", "中止")),
        ),
        Action::Release => (
            word("release", "释放"),
            word("take a lock from its holder", "从持有者手中收回锁"),
            Some(word("release", "释放")),
        ),
        Action::RunJob => (
            word("run now", "立即运行"),
            word("run a job at once", "立即运行一次定时任务"),
            Some(word("run job", "运行任务")),
        ),
        Action::Export => (
            word("export", "导出"),
            word("write screen or table to a file", "把屏幕或表格写入文件"),
            Some(word("export", "导出")),
        ),
        Action::Picture => (
            word("picture", "截图"),
            word("the screen as a picture, at once", "立即把屏幕存为图片"),
            None,
        ),
        Action::Accept => (word("yes", "确定"), word("do it", "执行"), None),
        Action::Cancel => {
            (word("cancel", "取消"), word("leave without doing anything", "什么也不做就离开"), None)
        }
        Action::Press => (word("choose", "选定"), word("take what is chosen", "执行所选项"), None),
        Action::NextPart => {
            (word("next", "下一项"), word("next field or button", "下一个输入框或按钮"), None)
        }
        Action::PreviousPart => {
            (word("previous", "上一项"), word("field or button before", "上一个输入框或按钮"), None)
        }
    }
}

/// Headings of the help screen.
pub(crate) fn context(context: Context) -> &'static str {
    let told = match context {
        Context::Always => word("Always", "任何时候"),
        Context::Views => word("Every view", "所有页签"),
        Context::Overview => word("Overview", "总览"),
        Context::Sales => word("Sales", "秒杀"),
        Context::Pending => word("Pending", "待确认"),
        Context::Letters => word("Dead letters", "死信"),
        Context::Stream => stream::TAB,
        Context::Orders => orders::TAB,
        Context::Locks => word("Locks", "锁"),
        Context::Jobs => word("Jobs", "定时任务"),
        Context::Ledger => ledger::TAB,
        Context::Activity => word("Activity", "动态"),
        Context::Presenter => presenter::CONTEXT,
        Context::Confirm => word("A question", "确认框"),
        Context::Form => word("A form", "表单"),
        Context::Button => word("A form's buttons", "表单按钮"),
        Context::Palette => word("Commands", "命令"),
        Context::Help => word("Help", "帮助"),
        Context::Filter => word("Filter", "筛选"),
    };
    told.read()
}
