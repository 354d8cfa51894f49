//! A refusal that suggests a step names its key, wherever that is bound, in both languages.

use crossterm::event::KeyCode;
use futures::FutureExt;
use seckill_engine::{
    command::{Command, LettersCounted, Reply},
    group::{Preview, RemoveReport},
    plan::made_up,
    telemetry::{Snapshot, snapshot::LetterPage},
};
use seckill_model::{LetterCounts, Verdict, VoucherId, locale::set_thread_language};
use tokio::sync::oneshot;

use super::{
    fixture::{Bench, entry, normal},
    letters::poisoned,
    stream::flowing,
};
use crate::{Keys, keymap};

fn choose(text: &str) {
    let keys: Keys = toml::from_str(text).expect("keys that can be read");
    keymap::choose_here(keys.table().expect("a good choice"));
}

#[test]
fn a_paused_display_names_the_resume_key() {
    choose("freeze = \"f6\"");
    for (lang, expected) in [
        ("en", "the display is paused; press F6 to resume before loading more"),
        ("zh", "画面已冻结，按 F6 恢复后才能读取更多"),
    ] {
        set_thread_language(lang);
        let mut bench = Bench::new(Snapshot { letters: LetterPage::default(), ..normal() });
        bench.press(KeyCode::F(6));
        bench.keys("5");
        assert_eq!(bench.said(), expected);
    }
}

#[test]
fn choosing_names_its_keys() {
    choose("down = [\"J\"]\nstart = \"B\"\nremove-consumer = \"K\"");
    for (lang, sale, consumer) in [
        (
            "en",
            "select the sale with ↑ and J, then press B again",
            "select a consumer in the list above with ↑ and J, then press K again",
        ),
        (
            "zh",
            "请先用 ↑ J 选中要操作的秒杀，再按一次 B",
            "请先按 ↑ J 在上方列表中选择一个消费者，再按一次 K",
        ),
    ] {
        set_thread_language(lang);
        let mut bench = Bench::new(normal());
        bench.keys("B");
        assert_eq!(bench.said(), sale);
        let mut bench = Bench::new(flowing());
        bench.keys("3K");
        assert_eq!(bench.said(), consumer);
    }
}

#[test]
fn a_covered_question_names_the_keys_to_close_and_retry() {
    let plan = || Reply::Planned(made_up::plan(&[(entry(1), Verdict::Stuck)], ""));
    // A form, a question, its reason, the palette.
    let over =
        [("1N", false, "Esc"), ("2jkE", false, "n"), ("2jkE", true, "Esc"), (":", false, "Esc")];
    for (keys, tab, closes) in over {
        let mut bench = Bench::new(normal());
        bench.keys("4A");
        bench.sent();
        bench.keys(keys);
        if tab {
            bench.press(KeyCode::Tab);
        }
        bench.answer(Ok(plan()));
        let text = format!("the plan is ready; press {closes} to close this, then A again");
        assert_eq!(bench.said(), text, "{keys}");
        match closes {
            "n" => bench.keys("n"),
            _ => bench.press(KeyCode::Esc),
        }
        assert!(bench.app.dialog.is_none(), "{keys}");
    }
    set_thread_language("zh");
    for (key, name) in [("R", "ReplayLetters"), ("D", "Discard"), ("C", "Compensate")] {
        let mut bench = Bench::new(poisoned());
        bench.keys("5");
        bench.keys(key);
        bench.sent();
        bench.keys(":");
        let counts = LetterCounts::default();
        let last = super::letters::letter(8);
        bench.answer(Ok(Reply::LettersCounted(LettersCounted { counts, gone: 0, last })));
        assert_eq!(bench.said(), format!("死信已统计，按 Esc 关闭此处，再按一次 {key}"), "{name}");
    }
    let mut bench = Bench::new(flowing());
    bench.keys("3cjj");
    bench.keys("D");
    assert_eq!(bench.sent().len(), 1);
    bench.keys(":");
    let found = RemoveReport { consumer: "node-c/1".to_owned(), partitions: vec![0] };
    bench.answer(Ok(Reply::Previewed(Preview::Remove(found))));
    assert_eq!(bench.said(), "统计已就绪，按 Esc 关闭此处，再按一次 D");
}

#[test]
fn an_unanswered_command_names_the_view_to_check() {
    choose("activity = \"f9\"");
    for (lang, expected) in [
        ("en", "; check Activity (F9) before you repeat the command"),
        ("zh", "请先在日志（F9）中核对结果再重试"),
    ] {
        set_thread_language(lang);
        let mut bench = Bench::new(normal());
        let (sender, answer) = oneshot::channel();
        drop(sender);
        let answer = answer.now_or_never().expect("the reply is ready");
        bench.app.on_answer((Command::EndSale(VoucherId(7)), answer));
        assert!(bench.said().contains(expected), "{}", bench.said());
    }
}

#[test]
fn no_key_is_named_that_does_nothing_there() {
    let mut bench = Bench::new(normal());
    bench.keys("2jkE");
    for key in ["z", "?"] {
        bench.keys(key);
        assert_eq!(bench.said(), format!("{key} has no function here"));
    }
    bench.keys("n");
    bench.keys("z");
    assert_eq!(bench.said(), "z has no function here; press ? for the keys");
}
