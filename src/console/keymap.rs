//! The table of key bindings. Dispatch, the help screen, the palette and the footer all follow it.

use std::{collections::HashSet, sync::OnceLock};

use seckill_model::Label;
use strum::VariantArray as _;

pub(crate) use super::key::Key;
use super::view::View;

/// Every action that a key can trigger, with its message in the catalog. Those from [`Self::Arm`] to [`Self::Pay`] are
/// commands, which change data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", prefix = "action-")]
pub(crate) enum Action {
    Go(View),
    Help,
    Palette,
    Filter,
    NextView,
    PreviousView,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Close,
    Back,
    Mark,
    MarkAll,
    SortNext,
    SortTurn,
    CopyName,
    CopyRow,
    Mouse,
    Freeze,
    Export,
    Picture,
    ZoomIn,
    ZoomOut,
    ZoomReset,
    Earlier,
    Later,
    MarkBefore,
    MarkAfter,
    Level,
    GuideNext,
    Quit,
    QuitNow,
    Suspend,
    Present,
    Arm,
    Fire,
    Abort,
    NewSale,
    Start,
    Pause,
    End,
    Rush,
    Restock,
    PlanRecovery,
    Repair,
    ReplayLetters,
    Discard,
    Compensate,
    StopCommand,
    Release,
    RunJob,
    Rewind,
    Claim,
    RemoveConsumer,
    Pay,
    Pane,
    Partition,
    Users,
    LabRun,
    LabWork,
    LabDatabase,
    LabPanel,
    LabMend,
    NextPage,
    PreviousPage,
    Accept,
    Cancel,
    Press,
    NextPart,
    PreviousPart,
}

impl Action {
    /// Its message: the footer word, the attributes `help` and, if it can be run by name, `name`.
    fn message(self) -> Label {
        match self {
            Self::Go(view) => view.message(),
            other => Label(other.into()),
        }
    }

    /// Its name in `[keys]` of the settings: `NewSale` is `new-sale`, `Go(View::Sales)` is `sales`.
    pub(crate) fn setting(self) -> &'static str {
        let id = self.message().0;
        id.split_once('-').map_or(id, |(_, name)| name)
    }

    /// The word in the footer.
    pub(crate) fn label(self) -> &'static str {
        self.message().read()
    }

    /// What it does, for the help screen.
    pub(crate) fn help(self) -> &'static str {
        self.message().attribute("help").unwrap_or_default()
    }

    /// The palette name; `None` if it cannot be run by name.
    pub(crate) fn name(self) -> Option<&'static str> {
        self.message().attribute("name")
    }

    /// Whether it has no use in the lab alone, which has no engine, no other view and no guide.
    pub(crate) fn needs_engine(self) -> bool {
        let is_of_views = matches!(self, Self::Go(_) | Self::NextView | Self::PreviousView);
        let is_of_engine = matches!(self, Self::Present | Self::Freeze | Self::GuideNext);
        is_of_views || is_of_engine || self.is_command()
    }

    /// Whether it changes data: such actions are on capital letters and require a confirmation.
    pub(crate) fn is_command(self) -> bool {
        (Self::Arm..=Self::Pay).contains(&self)
    }
}

/// Where a binding applies, with its heading in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", prefix = "context-")]
pub(crate) enum Context {
    /// Everywhere, dialogs included.
    Always,
    /// In every view.
    Views,
    View(View),
    /// The presenter layout, over any view.
    Presenter,
    Confirm,
    Form,
    /// On a button of a form: the form's bindings, plus keys that are text in its fields.
    Button,
    Palette,
    Help,
    Filter,
}

impl Context {
    /// In the order of the help screen.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let rest = [
            Self::Presenter,
            Self::Confirm,
            Self::Form,
            Self::Button,
            Self::Filter,
            Self::Palette,
            Self::Help,
            Self::Always,
        ];
        std::iter::once(Self::Views).chain(Self::views()).chain(rest)
    }

    /// The contexts of a single view.
    pub(crate) fn views() -> impl Iterator<Item = Self> {
        View::VARIANTS.iter().copied().map(Self::View)
    }

    /// Contexts that apply at the same time, the innermost first.
    fn chain(self) -> impl Iterator<Item = Self> {
        let outer = match self {
            Self::View(_) => Some(Self::Views),
            Self::Button => Some(Self::Form),
            _ => None,
        };
        [Some(self), outer, Some(Self::Always)].into_iter().flatten()
    }

    /// Its heading on the help screen.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::View(view) => view.title(),
            other => Label(other.into()).read(),
        }
    }
}

/// One binding.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) context: Context,
    pub(crate) action: Action,
    pub(crate) keys: Vec<Key>,
    /// Shown in the footer; earlier bindings take precedence.
    pub(crate) footer: bool,
}

impl Binding {
    /// Whether it applies in a context.
    pub(super) fn is_in(&self, context: Context) -> bool {
        context.chain().any(|it| it == self.context)
    }
}

use Action as A;
use Context as C;

/// A binding of one view: an action, its keys as the settings name them, and whether the footer shows it.
pub(crate) type ViewKey = (Action, &'static str, bool);

// Bindings that several views have.
pub(crate) const FILTER: ViewKey = (A::Filter, "/", true);
pub(crate) const MARK: ViewKey = (A::Mark, "space", true);
pub(crate) const USERS: ViewKey = (A::Users, "u", true);
pub(crate) const STOP_COMMAND: ViewKey = (A::StopCommand, "X", false);

/// As [`ViewKey`], with the context.
pub(super) type Row = (Context, Action, &'static str, bool);

/// In the footer before the bindings of the view.
pub(super) const FIRST: &[Row] = &[(C::Views, A::Help, "?", true), (C::Views, A::Quit, "q", true)];

pub(super) const COMMON: &[Row] = &[
    (C::Views, A::Freeze, "f", true),
    (C::Views, A::Palette, ":", true),
    (C::Views, A::Open, "enter,right,l", true),
    (C::Views, A::SortNext, "o", false),
    (C::Views, A::SortTurn, "r", false),
    (C::Views, A::CopyName, "y", false),
    (C::Views, A::CopyRow, "w", false),
    (C::Views, A::Mouse, "m", false),
    (C::Views, A::Export, "x", false),
    (C::Views, A::Present, "t", false),
    (C::Views, A::GuideNext, "i", false),
    (C::Views, A::Arm, "L", false),
    (C::Views, A::Fire, "F", false),
    (C::Views, A::Abort, "H", false),
];

pub(super) const LAST: &[Row] = &[
    (C::Views, A::NextView, "tab", false),
    (C::Views, A::PreviousView, "shift-tab", false),
    (C::Views, A::Up, "up,k", false),
    (C::Views, A::Down, "down,j", false),
    (C::Views, A::PageUp, "pageup", false),
    (C::Views, A::PageDown, "pagedown", false),
    (C::Views, A::First, "home,g", false),
    (C::Views, A::Last, "end,G", false),
    (C::Views, A::Close, "left,h", false),
    (C::Views, A::Back, "esc", false),
    (C::Presenter, A::Present, "t", true),
    (C::Presenter, A::Arm, "L", true),
    (C::Presenter, A::Fire, "F", true),
    (C::Presenter, A::Abort, "H", true),
    (C::Presenter, A::Go(View::Pending), "4", false),
    (C::Presenter, A::PlanRecovery, "A", false),
    (C::Presenter, A::GuideNext, "i", false),
    (C::Presenter, A::Help, "?", true),
    (C::Presenter, A::Quit, "q", true),
    (C::Presenter, A::Freeze, "f", false),
    (C::Presenter, A::Palette, ":", false),
    (C::Presenter, A::Up, "up,k", false),
    (C::Presenter, A::Down, "down,j", false),
    (C::Presenter, A::Back, "esc", false),
    (C::Confirm, A::Accept, "y", true),
    (C::Confirm, A::Cancel, "n,esc", true),
    (C::Confirm, A::Press, "enter", true),
    (C::Confirm, A::NextPart, "tab,right,l", true),
    (C::Confirm, A::PreviousPart, "shift-tab,left,h", false),
    (C::Form, A::Press, "enter", true),
    (C::Filter, A::Press, "enter", true),
    (C::Palette, A::Press, "enter", true),
    (C::Form, A::NextPart, "tab,down", true),
    (C::Form, A::PreviousPart, "shift-tab,up", false),
    (C::Button, A::NextPart, "right,l", false),
    (C::Button, A::PreviousPart, "left,h", false),
    (C::Palette, A::NextPart, "down,tab", true),
    (C::Palette, A::PreviousPart, "up,shift-tab", false),
    (C::Form, A::Cancel, "esc", true),
    (C::Filter, A::Cancel, "esc", true),
    (C::Palette, A::Cancel, "esc", true),
    (C::Help, A::Cancel, "esc,?,q,enter", true),
    (C::Help, A::Down, "down,j,pagedown", true),
    (C::Help, A::Up, "up,k,pageup", false),
    (C::Always, A::QuitNow, "ctrl-c", false),
    (C::Always, A::Picture, "ctrl-x", false),
    (C::Always, A::Suspend, "ctrl-z", false),
];

/// The effective bindings. A process has one console, and messages name keys without access to a table.
static CHOSEN: OnceLock<Vec<Binding>> = OnceLock::new();

#[cfg(test)]
thread_local! {
    /// Tests use several keymaps side by side.
    static HERE: std::cell::Cell<Option<&'static [Binding]>> = const { std::cell::Cell::new(None) };
}

/// Sets the bindings; the first call wins.
pub(super) fn choose(table: Vec<Binding>) {
    CHOSEN.get_or_init(|| table);
}

/// Sets the bindings of one test's thread.
#[cfg(test)]
pub(super) fn choose_here(table: Vec<Binding>) {
    HERE.set(Some(table.leak()));
}

/// The effective bindings.
pub(crate) fn table() -> &'static [Binding] {
    #[cfg(test)]
    if let Some(table) = HERE.get() {
        return table;
    }
    CHOSEN.get().map_or(&[], Vec::as_slice)
}

/// Looks up the action of a key in a context.
pub(crate) fn lookup(context: Context, key: Key) -> Option<Action> {
    context.chain().find_map(|context| {
        let mut bindings = table().iter().filter(|it| it.context == context);
        bindings.find(|it| it.keys.contains(&key)).map(|it| it.action)
    })
}

/// Whether a key, given by its label, is bound in a context.
pub(crate) fn holds(context: Context, label: &str) -> bool {
    let mut keys = table().iter().filter(|it| it.is_in(context)).flat_map(|it| it.keys.iter());
    keys.any(|key| key.label() == label)
}

/// What a key means in views other than `context`: a letter may be another command there.
pub(crate) fn elsewhere(context: Context, key: Key) -> Vec<(Action, Vec<Context>)> {
    let mut meanings: Vec<(Action, Vec<Context>)> = Vec::new();
    for view in View::of_engine().map(C::View).filter(|view| *view != context) {
        let Some(action) = lookup(view, key) else { continue };
        match meanings.iter_mut().find(|(known, _)| *known == action) {
            Some((_, views)) => views.push(view),
            None => meanings.push((action, vec![view])),
        }
    }
    meanings
}

/// Bindings for the footer of a context, by priority.
pub(crate) fn footer(context: Context) -> impl Iterator<Item = &'static Binding> {
    let is_attached = context == C::View(View::Attach);
    let is_shown = |it: &&Binding| {
        let is_hint = it.footer || is_attached && it.action == A::NextView;
        is_hint && !it.keys.is_empty() && it.is_in(context)
    };
    let mut shown: Vec<_> = table().iter().filter(is_shown).collect();
    if context == C::View(View::Lab) {
        // In a low window most of a design is on its page.
        let is_common = |it: &Binding| FIRST.iter().any(|(_, action, ..)| *action == it.action);
        shown.sort_by_key(|it| it.action != A::Open && !is_common(it));
    }
    shown.into_iter()
}

/// The first key of an action, for messages that name it.
pub(crate) fn key_of(action: Action) -> String {
    key_named(action.setting())
}

/// As [`key_of`], by the name of the action in the settings: `KEY("freeze")` in the catalog.
pub(crate) fn key_named(action: &str) -> String {
    let mut bindings = table().iter().filter(|it| it.action.setting() == action);
    let key = bindings.find_map(|it| it.keys.first());
    // An action without a key can be run by name.
    key.map_or_else(|| format!(":{action}"), |key| key.label())
}

/// Named actions that are available in a context.
pub(crate) fn actions(context: Context) -> Vec<Action> {
    distinct(table().iter().filter(|it| it.is_in(context)))
}

/// The actions of some bindings, each once.
pub(super) fn distinct<'a>(bindings: impl Iterator<Item = &'a Binding>) -> Vec<Action> {
    let mut seen = HashSet::new();
    bindings.map(|it| it.action).filter(|action| seen.insert(*action)).collect()
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::keymap_config::{DEFAULT, choose_default, rows};

    #[test]
    fn every_default_key_has_its_name_in_the_settings() {
        for key in rows().flat_map(|(.., keys, _)| keys.split(',')) {
            assert_eq!(Key::parse(key).map(Key::setting).as_deref(), Ok(key));
        }
    }

    #[test]
    fn no_key_means_two_things_at_once() {
        for context in Context::all() {
            let mut seen = HashSet::new();
            for binding in DEFAULT.iter().filter(|it| it.is_in(context)) {
                for key in &binding.keys {
                    assert!(seen.insert(*key), "{} twice in {context:?}", key.label());
                }
            }
        }
    }

    #[test]
    fn commands_have_capital_letters_and_nothing_else_does_but_last() {
        for binding in DEFAULT.iter().filter(|b| b.action != Action::Last) {
            let capital = binding
                .keys
                .iter()
                .any(|key| matches!(key.code, KeyCode::Char(c) if c.is_ascii_uppercase()));
            assert_eq!(capital, binding.action.is_command(), "{binding:?}");
        }
    }

    #[test]
    fn shift_does_not_hide_a_capital() {
        choose_default();
        let event = KeyEvent::new(KeyCode::Char('N'), KeyModifiers::SHIFT);
        assert_eq!(lookup(C::View(View::Sales), Key::of(&event)), Some(Action::NewSale));
        assert_eq!(lookup(C::View(View::Pending), Key::of(&event)), None);
        let found = elsewhere(C::View(View::Pending), Key::of(&event));
        assert_eq!(found, [(A::NewSale, vec![C::View(View::Overview), C::View(View::Sales)])]);
        let found = elsewhere(C::View(View::Pending), Key::parse("R").unwrap());
        let rush = (A::Rush, vec![C::View(View::Overview), C::View(View::Sales)]);
        assert_eq!(found, [rush, (A::ReplayLetters, vec![C::View(View::Letters)])]);
    }
}
