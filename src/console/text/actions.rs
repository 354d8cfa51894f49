//! Words of what keys do: one for the footer, a sentence for the help screen, a name for the palette.

use super::lang::word;
use crate::console::keymap::{Action, Context};

/// A word for the footer, a sentence for the help screen, and a name for the palette; each in both languages.
type Told = ((&'static str, &'static str), (&'static str, &'static str), Option<Name>);
type Name = (&'static str, &'static str);

/// A word for the footer, a sentence for the help screen, and a name for the palette.
pub(crate) fn action(action: Action) -> (&'static str, &'static str, Option<&'static str>) {
    let (key, meaning, name) = told(action);
    let read = |(en, zh)| word(en, zh).read();
    (read(key), read(meaning), name.map(read))
}

fn told(action: Action) -> Told {
    match action {
        Action::Help => (("help", "帮助"), ("this screen", "本帮助"), Some(("help", "帮助"))),
        Action::Palette => {
            (("command", "命令"), ("ask for an act by its name", "按名称查找操作"), None)
        }
        Action::Filter => (
            ("filter", "筛选"),
            ("show only the rows that hold a text", "只显示含某段文字的行"),
            Some(("filter", "筛选")),
        ),
        Action::Overview => {
            (("overview", "总览"), ("go to the Overview", "转到总览"), Some(("overview", "总览")))
        }
        Action::Sales => (("sales", "秒杀"), ("go to Sales", "转到秒杀"), Some(("sales", "秒杀"))),
        Action::Pending => {
            (("pending", "待确认"), ("go to Pending", "转到待确认"), Some(("pending", "待确认")))
        }
        Action::Letters => {
            (("dead", "死信"), ("go to Dead letters", "转到死信"), Some(("dead letters", "死信")))
        }
        Action::Locks => (("locks", "锁"), ("go to Locks", "转到锁"), Some(("locks", "锁"))),
        Action::Jobs => {
            (("jobs", "定时任务"), ("go to Jobs", "转到定时任务"), Some(("jobs", "定时任务")))
        }
        Action::NextView => (("next", "下一页签"), ("next view", "下一个页签"), None),
        Action::PreviousView => (("previous", "上一页签"), ("previous view", "上一个页签"), None),
        Action::Up => (("up", "上移"), ("one up", "上移一行"), None),
        Action::Down => (("more", "下移"), ("one down", "下移一行"), None),
        Action::PageUp => (
            ("page up", "上翻"),
            ("a screen up, then the page before", "上翻一屏，到顶后翻到上一页"),
            None,
        ),
        Action::PageDown => (
            ("page down", "下翻"),
            ("a screen down, then the page after", "下翻一屏，到底后翻到下一页"),
            None,
        ),
        Action::First => {
            (("first", "首行"), ("first row, then the first page", "到首行，再按到首页"), None)
        }
        Action::Last => {
            (("last", "末行"), ("last row, then the next page", "到末行，再按到下一页"), None)
        }
        Action::Open => (
            ("detail", "详情"),
            ("show all of the chosen row", "显示所选行的全部内容"),
            Some(("detail", "详情")),
        ),
        Action::Close => (("close", "收起"), ("close the detail", "收起详情"), None),
        Action::Back => (
            ("back", "返回"),
            ("take away a message, detail or filter", "关掉提示、详情或筛选"),
            None,
        ),
        Action::Mark => (
            ("mark", "标记"),
            ("mark or unmark this row and go on", "标记或取消标记本行并下移"),
            Some(("mark", "标记")),
        ),
        Action::Freeze => (
            ("freeze", "冻结"),
            ("hold the picture still, or let it go", "冻结画面，或恢复刷新"),
            Some(("freeze", "冻结画面")),
        ),
        Action::Quit => (
            ("quit", "退出"),
            ("leave; asks while a rush is under way", "退出，模拟抢购进行中会先询问"),
            Some(("quit", "退出")),
        ),
        Action::QuitNow => (("quit", "退出"), ("leave at once", "立即退出"), None),
        Action::Suspend => {
            (("suspend", "挂起"), ("back to the shell; fg returns", "回到终端，输入 fg 返回"), None)
        }
        Action::ZoomIn => (
            ("zoom in", "放大"),
            ("shorter time in the chart", "图表时间范围缩短"),
            Some(("zoom in", "放大图表")),
        ),
        Action::ZoomOut => (
            ("zoom out", "缩小"),
            ("longer time in the chart", "图表时间范围加长"),
            Some(("zoom out", "缩小图表")),
        ),
        Action::ZoomReset => (
            ("2 min", "2 分钟"),
            ("back to two minutes", "恢复为两分钟"),
            Some(("zoom reset", "图表复位")),
        ),
        Action::Activity => {
            (("activity", "动态"), ("go to Activity", "转到动态"), Some(("activity", "动态")))
        }
        Action::Earlier => (
            ("earlier", "更早"),
            ("look at an earlier moment", "查看更早的时刻"),
            Some(("earlier", "更早")),
        ),
        Action::Later => (
            ("later", "更晚"),
            ("look at a later moment", "查看更晚的时刻"),
            Some(("later", "更晚")),
        ),
        Action::MarkBefore => (
            ("mark before", "上一事件"),
            ("the act or alarm before", "上一次操作或告警"),
            Some(("mark before", "上一事件")),
        ),
        Action::MarkAfter => (
            ("mark after", "下一事件"),
            ("the act or alarm after", "下一次操作或告警"),
            Some(("mark after", "下一事件")),
        ),
        Action::Level => (
            ("level", "级别"),
            ("all lines, alarms or acts", "全部、告警或操作"),
            Some(("level", "级别")),
        ),
        Action::NewSale => (
            ("new sale", "新建秒杀"),
            ("create a sale", "新建一场秒杀"),
            Some(("new sale", "新建秒杀")),
        ),
        Action::Start => (
            ("start", "开始"),
            ("open a planned sale now", "立即开始未到点的秒杀"),
            Some(("start", "开始")),
        ),
        Action::Pause => (
            ("pause", "暂停"),
            ("hold it, or let it go on", "暂停，或恢复"),
            Some(("pause / resume", "暂停 / 恢复")),
        ),
        Action::End => {
            (("end", "结束"), ("end a sale for good", "永久结束一场秒杀"), Some(("end", "结束")))
        }
        Action::Rush => (
            ("rush", "模拟抢购"),
            ("send simulated buyers to a sale", "派模拟买家抢购"),
            Some(("rush", "模拟抢购")),
        ),
        Action::Replay => (
            ("plan", "计划"),
            ("plan what to do with entries", "为待确认消息制定处理计划"),
            Some(("plan replay", "制定重放计划")),
        ),
        Action::ReplayLetters => (
            ("replay", "重放"),
            ("put dead letters back", "把死信放回消息流"),
            Some(("replay dead letters", "重放死信")),
        ),
        Action::Discard => (
            ("discard", "丢弃"),
            ("remove those nobody waits for", "删除无人等待的死信"),
            Some(("discard", "丢弃")),
        ),
        Action::Compensate => (
            ("give back", "退还"),
            ("cancel, give back, remove", "取消订单、退还库存并删除"),
            Some(("give back", "退还")),
        ),
        Action::BreakOff => (
            ("break off", "中止"),
            ("end an act after its step", "做完当前一步后中止"),
            Some(("break off", "中止")),
        ),
        Action::Release => (
            ("release", "释放"),
            ("take a lock from its holder", "从持有者手中收回锁"),
            Some(("release", "释放")),
        ),
        Action::RunJob => (
            ("run now", "立即运行"),
            ("run a job at once", "立即运行一次定时任务"),
            Some(("run job", "运行任务")),
        ),
        Action::Accept => (("yes", "确定"), ("do it", "执行"), None),
        Action::Cancel => {
            (("cancel", "取消"), ("leave without doing anything", "什么也不做就离开"), None)
        }
        Action::Press => (("choose", "选定"), ("take what is chosen", "执行所选项"), None),
        Action::NextPart => {
            (("next", "下一项"), ("next field or button", "下一个输入框或按钮"), None)
        }
        Action::PreviousPart => {
            (("previous", "上一项"), ("field or button before", "上一个输入框或按钮"), None)
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
        Context::Locks => word("Locks", "锁"),
        Context::Jobs => word("Jobs", "定时任务"),
        Context::Activity => word("Activity", "动态"),
        Context::Confirm => word("A question", "确认框"),
        Context::Form => word("A form", "表单"),
        Context::Palette => word("Commands", "命令"),
        Context::Help => word("Help", "帮助"),
        Context::Filter => word("Filter", "筛选"),
    };
    told.read()
}
