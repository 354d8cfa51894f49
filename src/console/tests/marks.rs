//! Marks of dead letters and the answers to acts on them.

use super::{
    fixture::Bench,
    letters::{ask, letter, poisoned},
};
use crate::{
    engine::command::{LetterScope, LettersDiscarded, Reply},
    model::EntryId,
};

#[test]
fn an_answer_takes_the_marks_of_its_own_letters_only() {
    let mut bench = Bench::new(poisoned());
    bench.keys("5 ");
    ask(&mut bench, "D", &LetterScope::Letters(vec![letter(0)]));
    bench.keys("y");
    bench.sent();
    bench.keys(" ");
    let report = LettersDiscarded { seen: 1, discarded: 1, ..LettersDiscarded::default() };
    bench.answer(Ok(Reply::LettersDiscarded(report)));
    let marks: Vec<EntryId> = bench.app.letters.marks.iter().copied().collect();
    assert_eq!(marks, [letter(1)]);
}
