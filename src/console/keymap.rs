//! The table of key bindings. Dispatch, the help screen, the palette and the footer all follow it.

use std::{borrow::Cow, sync::OnceLock};

use crossterm::event::{KeyCode, KeyModifiers};

pub(crate) use super::key::Key;

/// Every action that a key can trigger. `[keys]` of the settings uses these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Action {
    Help,
    Palette,
    Filter,
    Overview,
    Sales,
    Stream,
    Pending,
    Letters,
    Locks,
    Orders,
    Jobs,
    Ledger,
    Activity,
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
    Replay,
    Repair,
    ReplayLetters,
    Discard,
    Compensate,
    BreakOff,
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
    /// Whether it changes something: such actions are on capital letters and ask first.
    pub(crate) fn is_act(self) -> bool {
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
                | Self::Replay
                | Self::Repair
                | Self::ReplayLetters
                | Self::Discard
                | Self::Compensate
                | Self::BreakOff
                | Self::Release
                | Self::RunJob
                | Self::Rewind
                | Self::Claim
                | Self::RemoveConsumer
                | Self::Pay
        )
    }
}

/// Where a binding applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Context {
    /// Everywhere, dialogs included.
    Always,
    /// In every view.
    Views,
    Overview,
    Sales,
    Stream,
    Pending,
    Letters,
    Locks,
    Orders,
    Jobs,
    Ledger,
    Activity,
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
    pub(crate) const ALL: [Self; 19] = [
        Self::Views,
        Self::Overview,
        Self::Sales,
        Self::Stream,
        Self::Pending,
        Self::Letters,
        Self::Locks,
        Self::Orders,
        Self::Jobs,
        Self::Ledger,
        Self::Activity,
        Self::Presenter,
        Self::Confirm,
        Self::Form,
        Self::Button,
        Self::Filter,
        Self::Palette,
        Self::Help,
        Self::Always,
    ];

    /// Contexts that apply at the same time, the innermost first.
    pub(super) fn chain(self) -> &'static [Self] {
        match self {
            Self::Overview => &[Self::Overview, Self::Views, Self::Always],
            Self::Sales => &[Self::Sales, Self::Views, Self::Always],
            Self::Pending => &[Self::Pending, Self::Views, Self::Always],
            Self::Letters => &[Self::Letters, Self::Views, Self::Always],
            Self::Stream => &[Self::Stream, Self::Views, Self::Always],
            Self::Orders => &[Self::Orders, Self::Views, Self::Always],
            Self::Locks => &[Self::Locks, Self::Views, Self::Always],
            Self::Jobs => &[Self::Jobs, Self::Views, Self::Always],
            Self::Ledger => &[Self::Ledger, Self::Views, Self::Always],
            Self::Activity => &[Self::Activity, Self::Views, Self::Always],
            Self::Presenter => &[Self::Presenter, Self::Always],
            Self::Views => &[Self::Views, Self::Always],
            Self::Always => &[Self::Always],
            Self::Confirm => &[Self::Confirm, Self::Always],
            Self::Form => &[Self::Form, Self::Always],
            Self::Button => &[Self::Button, Self::Form, Self::Always],
            Self::Palette => &[Self::Palette, Self::Always],
            Self::Help => &[Self::Help, Self::Always],
            Self::Filter => &[Self::Filter, Self::Always],
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

/// The default bindings.
pub(crate) const TABLE: &[Binding] = &[
    bind(C::Views, A::Help, &[letter('?')], true),
    bind(C::Views, A::Quit, &[letter('q')], true),
    bind(C::Overview, A::NewSale, &[letter('N')], true),
    bind(C::Overview, A::Rush, &[letter('R')], true),
    bind(C::Overview, A::Start, &[letter('S')], true),
    bind(C::Overview, A::Pause, &[letter('P')], true),
    bind(C::Overview, A::End, &[letter('E')], true),
    bind(C::Overview, A::ZoomIn, &[letter('+')], false),
    bind(C::Overview, A::ZoomOut, &[letter('-')], false),
    bind(C::Overview, A::ZoomReset, &[letter('=')], false),
    bind(C::Overview, A::Earlier, &[letter('<')], false),
    bind(C::Overview, A::Later, &[letter('>')], false),
    bind(C::Overview, A::MarkBefore, &[letter('[')], false),
    bind(C::Overview, A::MarkAfter, &[letter(']')], false),
    bind(C::Sales, A::NewSale, &[letter('N')], true),
    bind(C::Sales, A::Rush, &[letter('R')], true),
    bind(C::Sales, A::Start, &[letter('S')], true),
    bind(C::Sales, A::Pause, &[letter('P')], true),
    bind(C::Sales, A::End, &[letter('E')], true),
    bind(C::Sales, A::Filter, &[letter('/')], true),
    bind(C::Pending, A::Replay, &[letter('A')], true),
    bind(C::Pending, A::BreakOff, &[letter('X')], false),
    bind(C::Pending, A::Mark, &[letter(' ')], true),
    bind(C::Pending, A::Filter, &[letter('/')], true),
    bind(C::Letters, A::ReplayLetters, &[letter('R')], true),
    bind(C::Letters, A::Discard, &[letter('D')], true),
    bind(C::Letters, A::Compensate, &[letter('C')], true),
    bind(C::Letters, A::BreakOff, &[letter('X')], false),
    bind(C::Letters, A::Mark, &[letter(' ')], true),
    bind(C::Letters, A::MarkAll, &[letter('*')], true),
    bind(C::Letters, A::Filter, &[letter('/')], true),
    bind(C::Locks, A::Release, &[letter('X')], true),
    bind(C::Locks, A::Filter, &[letter('/')], true),
    bind(C::Stream, A::Rewind, &[letter('W')], true),
    bind(C::Stream, A::Claim, &[letter('C')], true),
    bind(C::Stream, A::RemoveConsumer, &[letter('D')], true),
    bind(C::Stream, A::BreakOff, &[letter('X')], false),
    bind(C::Stream, A::Pane, &[letter('c')], true),
    bind(C::Stream, A::Partition, &[letter('p')], false),
    bind(C::Stream, A::Users, &[letter('u')], true),
    bind(C::Stream, A::Filter, &[letter('/')], true),
    bind(C::Orders, A::Pay, &[letter('P')], true),
    bind(C::Orders, A::Filter, &[letter('/')], true),
    bind(C::Orders, A::NextPage, &[letter('n')], true),
    bind(C::Orders, A::PreviousPage, &[letter('b')], true),
    bind(C::Orders, A::Users, &[letter('u')], true),
    bind(C::Jobs, A::RunJob, &[letter('T')], true),
    bind(C::Jobs, A::Pause, &[letter('P')], true),
    bind(C::Jobs, A::Filter, &[letter('/')], true),
    bind(C::Ledger, A::Repair, &[letter('A')], true),
    bind(C::Ledger, A::Mark, &[letter(' ')], true),
    bind(C::Ledger, A::Filter, &[letter('/')], true),
    bind(C::Activity, A::Level, &[letter('v')], true),
    bind(C::Activity, A::Filter, &[letter('/')], true),
    bind(C::Sales, A::Users, &[letter('u')], false),
    bind(C::Pending, A::Users, &[letter('u')], true),
    bind(C::Letters, A::Users, &[letter('u')], true),
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
    bind(C::Views, A::Overview, &[letter('1')], false),
    bind(C::Views, A::Sales, &[letter('2')], false),
    bind(C::Views, A::Stream, &[letter('3')], false),
    bind(C::Views, A::Pending, &[letter('4')], false),
    bind(C::Views, A::Letters, &[letter('5')], false),
    bind(C::Views, A::Locks, &[letter('6')], false),
    bind(C::Views, A::Orders, &[letter('7')], false),
    bind(C::Views, A::Jobs, &[letter('8')], false),
    bind(C::Views, A::Ledger, &[letter('9')], false),
    bind(C::Views, A::Activity, &[letter('0')], false),
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
    let chain = context.chain();
    chain.iter().find_map(|context| {
        table()
            .iter()
            .find(|binding| binding.context == *context && binding.keys.contains(&key))
            .map(|binding| binding.action)
    })
}

/// Whether a key, given by its label, is bound in a context.
pub(crate) fn holds(context: Context, label: &str) -> bool {
    let of = |it: &&Binding| context.chain().contains(&it.context);
    table().iter().filter(of).any(|it| it.keys.iter().any(|key| key.label() == label))
}

/// What a key means in views other than `context`: a letter may be another command there.
pub(crate) fn elsewhere(context: Context, key: Key) -> Vec<(Action, Vec<Context>)> {
    let views = [
        Context::Overview,
        Context::Sales,
        Context::Stream,
        Context::Pending,
        Context::Letters,
        Context::Locks,
        Context::Orders,
        Context::Jobs,
        Context::Ledger,
        Context::Activity,
    ];
    let mut meanings: Vec<(Action, Vec<Context>)> = Vec::new();
    for view in views.into_iter().filter(|view| *view != context) {
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
    let chain = context.chain();
    table().iter().filter(move |binding| {
        binding.footer && !binding.keys.is_empty() && chain.contains(&binding.context)
    })
}

/// The first key of an action, for messages that name it.
pub(crate) fn key_of(action: Action) -> String {
    table()
        .iter()
        .filter(|binding| binding.action == action)
        .find_map(|binding| binding.keys.first())
        // An action without a key can be run by name.
        .map_or_else(|| format!(":{}", super::keymap_config::name(action)), |key| key.label())
}

/// Named actions that are available in a context.
pub(crate) fn actions(context: Context) -> Vec<Action> {
    let mut actions = Vec::new();
    for binding in table() {
        if context.chain().contains(&binding.context) && !actions.contains(&binding.action) {
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
        for context in Context::ALL {
            let mut seen = HashSet::new();
            for binding in TABLE.iter().filter(|b| context.chain().contains(&b.context)) {
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
            assert_eq!(capital, binding.action.is_act(), "{binding:?}");
        }
    }

    #[test]
    fn shift_does_not_hide_a_capital() {
        let event = KeyEvent::new(KeyCode::Char('N'), KeyModifiers::SHIFT);
        assert_eq!(lookup(Context::Sales, Key::of(&event)), Some(Action::NewSale));
        assert_eq!(lookup(Context::Pending, Key::of(&event)), None);
        let found = elsewhere(Context::Pending, Key::of(&event));
        assert_eq!(found, [(A::NewSale, vec![C::Overview, C::Sales])]);
        let found = elsewhere(Context::Pending, letter('R'));
        let rush = (A::Rush, vec![C::Overview, C::Sales]);
        assert_eq!(found, [rush, (A::ReplayLetters, vec![C::Letters])]);
    }
}
