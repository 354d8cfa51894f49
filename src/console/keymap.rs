//! The table of key bindings. Dispatch, the help screen, the palette and the footer all follow it.

use std::{borrow::Cow, sync::OnceLock};

use crossterm::event::{KeyCode, KeyModifiers};

use seckill_model::message::Label;
use strum::VariantArray as _;

pub(crate) use super::key::Key;
use super::views::View;

/// Every action that a key can trigger, with its message in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
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
        Label(match self {
            Self::Go(view) => view.into(),
            other => other.into(),
        })
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

    /// Whether it changes data: such actions are on capital letters and require a confirmation.
    pub(crate) fn is_command(self) -> bool {
        matches!(
            self,
            Self::Arm
                | Self::Fire
                | Self::Abort
                | Self::NewSale
                | Self::Start
                | Self::Pause
                | Self::End
                | Self::Rush
                | Self::PlanRecovery
                | Self::Repair
                | Self::ReplayLetters
                | Self::Discard
                | Self::Compensate
                | Self::StopCommand
                | Self::Release
                | Self::RunJob
                | Self::Rewind
                | Self::Claim
                | Self::RemoveConsumer
                | Self::Pay
        )
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
    pub(crate) keys: Cow<'static, [Key]>,
    /// Shown in the footer; earlier bindings take precedence.
    pub(crate) footer: bool,
}

impl Binding {
    /// Whether it applies in a context.
    pub(super) fn is_in(&self, context: Context) -> bool {
        context.chain().any(|it| it == self.context)
    }
}

const fn key(code: KeyCode) -> Key {
    Key { code, modifiers: KeyModifiers::NONE }
}

const fn letter(c: char) -> Key {
    key(KeyCode::Char(c))
}

const fn control(c: char) -> Key {
    Key { code: KeyCode::Char(c), modifiers: KeyModifiers::CONTROL }
}

const fn bind(context: Context, action: Action, keys: &'static [Key], footer: bool) -> Binding {
    Binding { context, action, keys: Cow::Borrowed(keys), footer }
}

use Action as A;
use Context as C;
use View as V;

/// The default bindings.
pub(crate) const TABLE: &[Binding] = &[
    bind(C::Views, A::Help, &[letter('?')], true),
    bind(C::Views, A::Quit, &[letter('q')], true),
    bind(C::View(V::Overview), A::NewSale, &[letter('N')], true),
    bind(C::View(V::Overview), A::Rush, &[letter('R')], true),
    bind(C::View(V::Overview), A::Start, &[letter('S')], true),
    bind(C::View(V::Overview), A::Pause, &[letter('P')], true),
    bind(C::View(V::Overview), A::End, &[letter('E')], true),
    bind(C::View(V::Overview), A::ZoomIn, &[letter('+')], false),
    bind(C::View(V::Overview), A::ZoomOut, &[letter('-')], false),
    bind(C::View(V::Overview), A::ZoomReset, &[letter('=')], false),
    bind(C::View(V::Overview), A::Earlier, &[letter('<')], false),
    bind(C::View(V::Overview), A::Later, &[letter('>')], false),
    bind(C::View(V::Overview), A::MarkBefore, &[letter('[')], false),
    bind(C::View(V::Overview), A::MarkAfter, &[letter(']')], false),
    bind(C::View(V::Sales), A::NewSale, &[letter('N')], true),
    bind(C::View(V::Sales), A::Rush, &[letter('R')], true),
    bind(C::View(V::Sales), A::Start, &[letter('S')], true),
    bind(C::View(V::Sales), A::Pause, &[letter('P')], true),
    bind(C::View(V::Sales), A::End, &[letter('E')], true),
    bind(C::View(V::Sales), A::Filter, &[letter('/')], true),
    bind(C::View(V::Pending), A::PlanRecovery, &[letter('A')], true),
    bind(C::View(V::Pending), A::StopCommand, &[letter('X')], false),
    bind(C::View(V::Pending), A::Mark, &[letter(' ')], true),
    bind(C::View(V::Pending), A::Filter, &[letter('/')], true),
    bind(C::View(V::Letters), A::ReplayLetters, &[letter('R')], true),
    bind(C::View(V::Letters), A::Discard, &[letter('D')], true),
    bind(C::View(V::Letters), A::Compensate, &[letter('C')], true),
    bind(C::View(V::Letters), A::StopCommand, &[letter('X')], false),
    bind(C::View(V::Letters), A::Mark, &[letter(' ')], true),
    bind(C::View(V::Letters), A::MarkAll, &[letter('*')], true),
    bind(C::View(V::Letters), A::Filter, &[letter('/')], true),
    bind(C::View(V::Locks), A::Release, &[letter('X')], true),
    bind(C::View(V::Locks), A::Filter, &[letter('/')], true),
    bind(C::View(V::Stream), A::Rewind, &[letter('W')], true),
    bind(C::View(V::Stream), A::Claim, &[letter('C')], true),
    bind(C::View(V::Stream), A::RemoveConsumer, &[letter('D')], true),
    bind(C::View(V::Stream), A::StopCommand, &[letter('X')], false),
    bind(C::View(V::Stream), A::Pane, &[letter('c')], true),
    bind(C::View(V::Stream), A::Partition, &[letter('p')], false),
    bind(C::View(V::Stream), A::Users, &[letter('u')], true),
    bind(C::View(V::Stream), A::Filter, &[letter('/')], true),
    bind(C::View(V::Orders), A::Pay, &[letter('P')], true),
    bind(C::View(V::Orders), A::Filter, &[letter('/')], true),
    bind(C::View(V::Orders), A::NextPage, &[letter('n')], true),
    bind(C::View(V::Orders), A::PreviousPage, &[letter('b')], true),
    bind(C::View(V::Orders), A::Users, &[letter('u')], true),
    bind(C::View(V::Jobs), A::RunJob, &[letter('T')], true),
    bind(C::View(V::Jobs), A::Pause, &[letter('P')], true),
    bind(C::View(V::Jobs), A::Filter, &[letter('/')], true),
    bind(C::View(V::Ledger), A::Repair, &[letter('A')], true),
    bind(C::View(V::Ledger), A::Mark, &[letter(' ')], true),
    bind(C::View(V::Ledger), A::Filter, &[letter('/')], true),
    bind(C::View(V::Activity), A::Level, &[letter('v')], true),
    bind(C::View(V::Activity), A::Filter, &[letter('/')], true),
    bind(C::View(V::Sales), A::Users, &[letter('u')], false),
    bind(C::View(V::Pending), A::Users, &[letter('u')], true),
    bind(C::View(V::Letters), A::Users, &[letter('u')], true),
    bind(C::Views, A::Freeze, &[letter('f')], true),
    bind(C::Views, A::Palette, &[letter(':')], true),
    bind(C::Views, A::Open, &[key(KeyCode::Enter), key(KeyCode::Right), letter('l')], true),
    bind(C::Views, A::SortNext, &[letter('o')], false),
    bind(C::Views, A::SortTurn, &[letter('r')], false),
    bind(C::Views, A::CopyName, &[letter('y')], false),
    bind(C::Views, A::CopyRow, &[letter('w')], false),
    bind(C::Views, A::Mouse, &[letter('m')], false),
    bind(C::Views, A::Export, &[letter('x')], false),
    bind(C::Views, A::Present, &[letter('t')], false),
    bind(C::Views, A::Arm, &[letter('L')], false),
    bind(C::Views, A::Fire, &[letter('F')], false),
    bind(C::Views, A::Abort, &[letter('H')], false),
    bind(C::Views, A::Go(V::Overview), &[letter('1')], false),
    bind(C::Views, A::Go(V::Sales), &[letter('2')], false),
    bind(C::Views, A::Go(V::Stream), &[letter('3')], false),
    bind(C::Views, A::Go(V::Pending), &[letter('4')], false),
    bind(C::Views, A::Go(V::Letters), &[letter('5')], false),
    bind(C::Views, A::Go(V::Locks), &[letter('6')], false),
    bind(C::Views, A::Go(V::Orders), &[letter('7')], false),
    bind(C::Views, A::Go(V::Jobs), &[letter('8')], false),
    bind(C::Views, A::Go(V::Ledger), &[letter('9')], false),
    bind(C::Views, A::Go(V::Activity), &[letter('0')], false),
    bind(C::Views, A::NextView, &[key(KeyCode::Tab)], false),
    bind(C::Views, A::PreviousView, &[key(KeyCode::BackTab)], false),
    bind(C::Views, A::Up, &[key(KeyCode::Up), letter('k')], false),
    bind(C::Views, A::Down, &[key(KeyCode::Down), letter('j')], false),
    bind(C::Views, A::PageUp, &[key(KeyCode::PageUp)], false),
    bind(C::Views, A::PageDown, &[key(KeyCode::PageDown)], false),
    bind(C::Views, A::First, &[key(KeyCode::Home), letter('g')], false),
    bind(C::Views, A::Last, &[key(KeyCode::End), letter('G')], false),
    bind(C::Views, A::Close, &[key(KeyCode::Left), letter('h')], false),
    bind(C::Views, A::Back, &[key(KeyCode::Esc)], false),
    bind(C::Presenter, A::Present, &[letter('t')], true),
    bind(C::Presenter, A::Arm, &[letter('L')], true),
    bind(C::Presenter, A::Fire, &[letter('F')], true),
    bind(C::Presenter, A::Abort, &[letter('H')], true),
    bind(C::Presenter, A::Help, &[letter('?')], true),
    bind(C::Presenter, A::Quit, &[letter('q')], true),
    bind(C::Presenter, A::Freeze, &[letter('f')], false),
    bind(C::Presenter, A::Palette, &[letter(':')], false),
    bind(C::Presenter, A::Up, &[key(KeyCode::Up), letter('k')], false),
    bind(C::Presenter, A::Down, &[key(KeyCode::Down), letter('j')], false),
    bind(C::Presenter, A::Back, &[key(KeyCode::Esc)], false),
    bind(C::Confirm, A::Accept, &[letter('y')], true),
    bind(C::Confirm, A::Cancel, &[letter('n'), key(KeyCode::Esc)], true),
    bind(C::Confirm, A::Press, &[key(KeyCode::Enter)], true),
    bind(C::Confirm, A::NextPart, &[key(KeyCode::Right), key(KeyCode::Tab), letter('l')], true),
    bind(
        C::Confirm,
        A::PreviousPart,
        &[key(KeyCode::Left), key(KeyCode::BackTab), letter('h')],
        false,
    ),
    bind(C::Form, A::Press, &[key(KeyCode::Enter)], true),
    bind(C::Form, A::NextPart, &[key(KeyCode::Tab), key(KeyCode::Down)], true),
    bind(C::Form, A::PreviousPart, &[key(KeyCode::BackTab), key(KeyCode::Up)], false),
    bind(C::Form, A::Cancel, &[key(KeyCode::Esc)], true),
    bind(C::Button, A::NextPart, &[key(KeyCode::Right), letter('l')], false),
    bind(C::Button, A::PreviousPart, &[key(KeyCode::Left), letter('h')], false),
    bind(C::Filter, A::Press, &[key(KeyCode::Enter)], true),
    bind(C::Filter, A::Cancel, &[key(KeyCode::Esc)], true),
    bind(C::Palette, A::Press, &[key(KeyCode::Enter)], true),
    bind(C::Palette, A::NextPart, &[key(KeyCode::Down), key(KeyCode::Tab)], true),
    bind(C::Palette, A::PreviousPart, &[key(KeyCode::Up), key(KeyCode::BackTab)], false),
    bind(C::Palette, A::Cancel, &[key(KeyCode::Esc)], true),
    bind(
        C::Help,
        A::Cancel,
        &[key(KeyCode::Esc), letter('?'), letter('q'), key(KeyCode::Enter)],
        true,
    ),
    bind(C::Help, A::Down, &[key(KeyCode::Down), letter('j'), key(KeyCode::PageDown)], true),
    bind(C::Help, A::Up, &[key(KeyCode::Up), letter('k'), key(KeyCode::PageUp)], false),
    bind(C::Always, A::QuitNow, &[control('c')], false),
    bind(C::Always, A::Picture, &[control('x')], false),
    bind(C::Always, A::Suspend, &[control('z')], false),
];

/// Custom bindings. A process has one console, and messages name keys without access to a table.
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
    CHOSEN.get().map_or(TABLE, Vec::as_slice)
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
    for view in Context::views().filter(|view| *view != context) {
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
    table().iter().filter(move |it| it.footer && !it.keys.is_empty() && it.is_in(context))
}

/// The first key of an action, for messages that name it.
pub(crate) fn key_of(action: Action) -> String {
    table()
        .iter()
        .filter(|binding| binding.action == action)
        .find_map(|binding| binding.keys.first())
        // An action without a key can be run by name.
        .map_or_else(|| format!(":{}", action.setting()), |key| key.label())
}

/// Named actions that are available in a context.
pub(crate) fn actions(context: Context) -> Vec<Action> {
    let mut actions = Vec::new();
    for binding in table().iter().filter(|it| it.is_in(context)) {
        if !actions.contains(&binding.action) {
            actions.push(binding.action);
        }
    }
    actions
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn no_key_means_two_things_at_once() {
        for context in Context::all() {
            let mut seen = HashSet::new();
            for binding in TABLE.iter().filter(|it| it.is_in(context)) {
                for key in binding.keys.iter() {
                    assert!(seen.insert(*key), "{} twice in {context:?}", key.label());
                }
            }
        }
    }

    #[test]
    fn commands_have_capital_letters_and_nothing_else_does_but_last() {
        for binding in TABLE.iter().filter(|b| b.action != Action::Last) {
            let capital = binding
                .keys
                .iter()
                .any(|key| matches!(key.code, KeyCode::Char(c) if c.is_ascii_uppercase()));
            assert_eq!(capital, binding.action.is_command(), "{binding:?}");
        }
    }

    #[test]
    fn shift_does_not_hide_a_capital() {
        let event = KeyEvent::new(KeyCode::Char('N'), KeyModifiers::SHIFT);
        assert_eq!(lookup(C::View(V::Sales), Key::of(&event)), Some(Action::NewSale));
        assert_eq!(lookup(C::View(V::Pending), Key::of(&event)), None);
        let found = elsewhere(C::View(V::Pending), Key::of(&event));
        assert_eq!(found, [(A::NewSale, vec![C::View(V::Overview), C::View(V::Sales)])]);
        let found = elsewhere(C::View(V::Pending), letter('R'));
        let rush = (A::Rush, vec![C::View(V::Overview), C::View(V::Sales)]);
        assert_eq!(found, [rush, (A::ReplayLetters, vec![C::View(V::Letters)])]);
    }
}
