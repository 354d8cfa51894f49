//! Texts of key actions: footer word, help sentence and palette name.

use seckill_model::message::Label;

use super::{conventions, launch, ledger, orders, presenter, stream};
use crate::keymap::{Action, Context};

/// Footer word, help sentence and palette name.
pub(super) type ActionText = (Label, Label, Option<Label>);

/// Footer word, help sentence and palette name.
pub(crate) fn action(action: Action) -> (&'static str, &'static str, Option<&'static str>) {
    let (key, meaning, name) = action_text(action);
    (key.read(), meaning.read(), name.map(Label::read))
}

/// The English palette name, by which the action is found in every language.
pub(crate) fn english_name(action: Action) -> Option<&'static str> {
    action_text(action).2.map(Label::english)
}

fn action_text(action: Action) -> ActionText {
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
        Action::Present | Action::Arm | Action::Fire | Action::Abort => launch::action(action),
        Action::Help => {
            (Label("actions-help"), Label("actions-this-screen"), Some(Label("actions-help")))
        }
        Action::Palette => (Label("actions-command"), Label("actions-ask-for-an-act-by-its"), None),
        Action::Filter => (
            Label("actions-filter"),
            Label("actions-only-rows-with-a-text-text"),
            Some(Label("actions-filter")),
        ),
        Action::Overview => (
            Label("actions-overview"),
            Label("actions-go-to-the-overview"),
            Some(Label("actions-overview")),
        ),
        Action::Sales => {
            (Label("actions-sales"), Label("actions-go-to-sales"), Some(Label("actions-sales")))
        }
        Action::Pending => {
            (Label("common-pending"), Label("actions-go-to-pending"), Some(Label("common-pending")))
        }
        Action::Letters => (
            Label("actions-dead"),
            Label("actions-go-to-dead-letters"),
            Some(Label("common-dead-letters")),
        ),
        Action::Locks => {
            (Label("actions-locks"), Label("actions-go-to-locks"), Some(Label("actions-locks")))
        }
        Action::Jobs => {
            (Label("actions-jobs"), Label("actions-go-to-jobs"), Some(Label("actions-jobs")))
        }
        Action::NextView => (Label("actions-next"), Label("actions-next-view"), None),
        Action::PreviousView => (Label("actions-previous"), Label("actions-previous-view"), None),
        Action::Up => (Label("actions-up"), Label("actions-one-up"), None),
        Action::Down => (Label("actions-more"), Label("actions-one-down"), None),
        Action::PageUp => {
            (Label("actions-page-up"), Label("actions-a-screen-up-then-the-page"), None)
        }
        Action::PageDown => {
            (Label("actions-page-down"), Label("actions-a-screen-down-then-the-page"), None)
        }
        Action::First => {
            (Label("actions-first"), Label("actions-first-row-then-the-first-page"), None)
        }
        Action::Last => (Label("actions-last"), Label("actions-last-row-then-the-next-page"), None),
        Action::Open => (
            Label("actions-detail"),
            Label("actions-show-all-of-the-chosen-row"),
            Some(Label("actions-detail")),
        ),
        Action::Close => (Label("actions-close"), Label("actions-close-the-detail"), None),
        Action::Back => (Label("actions-back"), Label("actions-close-what-is-open-else-to"), None),
        Action::Mark => (
            Label("actions-mark"),
            Label("actions-mark-or-unmark-this-row-and"),
            Some(Label("actions-mark")),
        ),
        Action::MarkAll => (
            Label("actions-mark-all"),
            Label("actions-mark-all-or-those-the-filter"),
            Some(Label("actions-mark-all")),
        ),
        Action::Freeze => (
            Label("actions-freeze"),
            Label("actions-hold-the-picture-still-or-let"),
            Some(Label("actions-freeze-2")),
        ),
        Action::Quit => (
            Label("actions-quit"),
            Label("actions-leave-asks-first-during-a-rush"),
            Some(Label("actions-quit")),
        ),
        Action::QuitNow => (Label("actions-quit"), Label("actions-leave-at-once"), None),
        Action::Suspend => {
            (Label("actions-suspend"), Label("actions-back-to-the-shell-fg-returns"), None)
        }
        Action::ZoomIn => (
            Label("actions-zoom-in"),
            Label("actions-shorter-time-in-the-chart"),
            Some(Label("actions-zoom-in-2")),
        ),
        Action::ZoomOut => (
            Label("actions-zoom-out"),
            Label("actions-longer-time-in-the-chart"),
            Some(Label("actions-zoom-out-2")),
        ),
        Action::ZoomReset => (
            Label("actions-2-min"),
            Label("actions-back-to-two-minutes"),
            Some(Label("actions-zoom-reset")),
        ),
        Action::Activity => (
            Label("common-activity"),
            Label("actions-go-to-activity"),
            Some(Label("common-activity")),
        ),
        Action::Earlier => (
            Label("actions-earlier"),
            Label("actions-look-at-an-earlier-moment"),
            Some(Label("actions-earlier")),
        ),
        Action::Later => (
            Label("actions-later"),
            Label("actions-look-at-a-later-moment"),
            Some(Label("actions-later")),
        ),
        Action::MarkBefore => (
            Label("actions-mark-before"),
            Label("actions-the-act-or-alarm-before"),
            Some(Label("actions-mark-before")),
        ),
        Action::MarkAfter => (
            Label("actions-mark-after"),
            Label("actions-the-act-or-alarm-after"),
            Some(Label("actions-mark-after")),
        ),
        Action::Level => (
            Label("actions-level"),
            Label("actions-all-lines-alarms-or-acts"),
            Some(Label("actions-level")),
        ),
        Action::NewSale => {
            (Label("actions-new"), Label("actions-create-a-sale"), Some(Label("actions-new-sale")))
        }
        Action::Start => (
            Label("actions-start"),
            Label("actions-open-a-planned-sale-now"),
            Some(Label("actions-start")),
        ),
        Action::Pause => (
            Label("actions-pause"),
            Label("actions-hold-it-or-let-it-go"),
            Some(Label("actions-pause-resume")),
        ),
        Action::End => {
            (Label("actions-end"), Label("actions-end-a-sale-for-good"), Some(Label("actions-end")))
        }
        Action::Rush => (
            Label("actions-rush"),
            Label("actions-send-simulated-buyers-to-a-sale"),
            Some(Label("actions-load-test")),
        ),
        Action::Replay => (
            Label("actions-plan"),
            Label("actions-plan-what-to-do-with-entries"),
            Some(Label("actions-plan-replay")),
        ),
        Action::ReplayLetters => (
            Label("actions-replay"),
            Label("actions-put-the-marked-ones-or-this"),
            Some(Label("actions-replay-dead-letters")),
        ),
        Action::Discard => (
            Label("actions-discard"),
            Label("actions-discard-without-buyer"),
            Some(Label("actions-discard")),
        ),
        Action::Compensate => (
            Label("actions-give-back"),
            Label("actions-cancel-give-back-remove"),
            Some(Label("actions-give-back")),
        ),
        Action::BreakOff => (
            Label("actions-break-off"),
            Label("actions-end-an-act-after-its-step"),
            Some(Label("actions-break-off")),
        ),
        Action::Release => (
            Label("actions-release"),
            Label("actions-take-a-lock-from-its-holder"),
            Some(Label("actions-release")),
        ),
        Action::RunJob => (
            Label("actions-run-now"),
            Label("actions-run-a-job-at-once"),
            Some(Label("actions-run-job")),
        ),
        Action::Export => (
            Label("actions-export"),
            Label("actions-write-screen-or-table-to-a"),
            Some(Label("actions-export")),
        ),
        Action::Picture => {
            (Label("actions-picture"), Label("actions-the-screen-as-a-picture-at"), None)
        }
        Action::Accept => (Label("actions-yes"), Label("actions-do-it"), None),
        Action::Cancel => {
            (Label("actions-cancel"), Label("actions-leave-without-doing-anything"), None)
        }
        Action::Press => (Label("actions-choose"), Label("actions-take-what-is-chosen"), None),
        Action::NextPart => (Label("actions-next-2"), Label("actions-next-field-or-button"), None),
        Action::PreviousPart => {
            (Label("actions-previous-2"), Label("actions-field-or-button-before"), None)
        }
    }
}

/// Headings of the help screen.
pub(crate) fn context(context: Context) -> &'static str {
    let text = match context {
        Context::Always => Label("actions-always"),
        Context::Views => Label("actions-every-view"),
        Context::Overview => Label("common-overview"),
        Context::Sales => Label("common-sales"),
        Context::Pending => Label("common-pending-2"),
        Context::Letters => Label("actions-dead-letters"),
        Context::Stream => stream::TAB,
        Context::Orders => orders::TAB,
        Context::Locks => Label("common-locks"),
        Context::Jobs => Label("common-jobs"),
        Context::Ledger => ledger::TAB,
        Context::Activity => Label("common-activity-2"),
        Context::Presenter => presenter::CONTEXT,
        Context::Confirm => Label("actions-a-question"),
        Context::Form => Label("actions-a-form"),
        Context::Button => Label("actions-a-forms-buttons"),
        Context::Palette => Label("actions-commands"),
        Context::Help => Label("actions-help-2"),
        Context::Filter => Label("actions-filter-2"),
    };
    text.read()
}
