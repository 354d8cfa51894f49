//! A message that suggests a step names its key, whatever that is bound to.

use tokio::sync::oneshot;

use super::prelude::*;

#[test]
fn messages_name_the_configured_keys() {
    let keys = "freeze = \"f6\"\ndown = [\"J\"]\nstart = \"B\"\nremove-consumer = \"K\"\nactivity = \"f9\"";
    let keys: Keys = toml::from_str(keys).expect("keys that can be read");
    keymap::choose_here(keys.table().expect("a good choice"));
    let mut tui = Tui::new(Snapshot { letters: LetterPage::default(), ..normal() });
    tui.key(KeyCode::F(6));
    let paused = "the display is paused; press F6 to resume before loading more";
    tui.press("5").assert_status(paused);
    Tui::open(normal(), "B").assert_status("select the sale with ↑ and J, then press B again");
    let consumer = "select a consumer in the list above with ↑ and J, then press K again";
    Tui::open(with_stream(), "3K").assert_status(consumer);
    // The engine stopped before it replied.
    let mut tui = Tui::new(normal());
    let (sender, answer) = oneshot::channel();
    drop(sender);
    let answer = answer.now_or_never().expect("the reply is ready");
    tui.app.on_answer((Command::EndSale(VoucherId(7)), answer));
    tui.assert_status_contains("; check Activity (F9) before you repeat the command");
}

#[test]
fn a_covered_question_names_the_keys_to_close_and_retry() {
    // A form, a question, its reason, the palette.
    for (keys, closes) in [("1N", "Esc"), ("2jkE", "n"), ("2jkE\t", "Esc"), (":", "Esc")] {
        let mut tui = Tui::open(normal(), "4A");
        tui.sent();
        let plan = plan(&[(entry(1), Verdict::Stuck)], "");
        tui.press(keys).answer(Ok(Reply::Planned(plan)));
        let text = format!("the plan is ready; press {closes} to close this, then A again");
        tui.assert_status(&text);
        tui.press(if closes == "n" { "n" } else { "\x1b" });
        assert!(tui.app.dialog.is_none(), "{keys}");
    }
    for key in ["R", "D", "C"] {
        let mut tui = Tui::open(with_letters(), "5");
        tui.press(key).sent();
        let counted = LettersCounted { counts: LetterCounts::default(), gone: 0, last: letter(8) };
        tui.press(":").answer(Ok(Reply::LettersCounted(counted)));
        let text = "the dead letters are counted; press Esc to close this, then";
        tui.assert_status(&format!("{text} {key} again"));
    }
    let mut tui = Tui::open(with_stream(), "3cjjD");
    assert_eq!(tui.sent().len(), 1);
    let found = RemoveReport { consumer: "node-c/1".to_owned(), partitions: vec![0] };
    tui.press(":").answer(Ok(Reply::Previewed(Preview::Remove(found))));
    tui.assert_status("the statistics are ready; press Esc to close this, then D again");
}

#[test]
fn no_key_is_named_that_does_nothing_there() {
    let mut tui = Tui::open(normal(), "2jkE");
    for key in ["z", "?"] {
        assert_eq!(tui.press(key).status(), format!("{key} has no function here"));
    }
    tui.press("nz").assert_status("z has no function here; press ? for the keys");
}
