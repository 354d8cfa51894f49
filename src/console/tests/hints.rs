//! A refusal that suggests a step names its key, wherever that is bound, in both languages.

use tokio::sync::oneshot;

use super::prelude::*;

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
        let mut tui = Tui::new(Snapshot { letters: LetterPage::default(), ..normal() });
        tui.key(KeyCode::F(6));
        tui.press("5");
        tui.assert_status(expected);
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
        let mut tui = Tui::open(normal(), "B");
        tui.assert_status(sale);
        let mut tui = Tui::open(with_stream(), "3K");
        tui.assert_status(consumer);
    }
}

#[test]
fn a_covered_question_names_the_keys_to_close_and_retry() {
    let plan = || Reply::Planned(made_up::plan(&[(entry(1), Verdict::Stuck)], ""));
    // A form, a question, its reason, the palette.
    let over =
        [("1N", false, "Esc"), ("2jkE", false, "n"), ("2jkE", true, "Esc"), (":", false, "Esc")];
    for (keys, tab, closes) in over {
        let mut tui = Tui::open(normal(), "4A");
        tui.sent();
        tui.press(keys);
        if tab {
            tui.press("\t");
        }
        tui.answer(Ok(plan()));
        let text = format!("the plan is ready; press {closes} to close this, then A again");
        assert_eq!(tui.status(), text, "{keys}");
        match closes {
            "n" => tui.press("n"),
            _ => tui.key(KeyCode::Esc),
        }
        assert!(tui.app.dialog.is_none(), "{keys}");
    }
    set_thread_language("zh");
    for (key, name) in [("R", "ReplayLetters"), ("D", "Discard"), ("C", "Compensate")] {
        let mut tui = Tui::open(with_letters(), "5");
        tui.press(key);
        tui.sent();
        tui.press(":");
        let counts = LetterCounts::default();
        let last = letter(8);
        tui.answer(Ok(Reply::LettersCounted(LettersCounted { counts, gone: 0, last })));
        assert_eq!(tui.status(), format!("死信已统计，按 Esc 关闭此处，再按一次 {key}"), "{name}");
    }
    let mut tui = Tui::open(with_stream(), "3cjjD");
    assert_eq!(tui.sent().len(), 1);
    tui.press(":");
    let found = RemoveReport { consumer: "node-c/1".to_owned(), partitions: vec![0] };
    tui.answer(Ok(Reply::Previewed(Preview::Remove(found))));
    tui.assert_status("统计已就绪，按 Esc 关闭此处，再按一次 D");
}

#[test]
fn an_unanswered_command_names_the_view_to_check() {
    choose("activity = \"f9\"");
    for (lang, expected) in [
        ("en", "; check Activity (F9) before you repeat the command"),
        ("zh", "请先在日志（F9）中核对结果再重试"),
    ] {
        set_thread_language(lang);
        let mut tui = Tui::new(normal());
        let (sender, answer) = oneshot::channel();
        drop(sender);
        let answer = answer.now_or_never().expect("the reply is ready");
        tui.app.on_answer((Command::EndSale(VoucherId(7)), answer));
        tui.assert_status_contains(expected);
    }
}

#[test]
fn no_key_is_named_that_does_nothing_there() {
    let mut tui = Tui::open(normal(), "2jkE");
    for key in ["z", "?"] {
        tui.press(key);
        assert_eq!(tui.status(), format!("{key} has no function here"));
    }
    tui.press("nz");
    tui.assert_status("z has no function here; press ? for the keys");
}
