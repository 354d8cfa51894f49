//! The banner of a guided demonstration: what happens now, and the next key for the presenter.
//!
//! Somebody else tells the story; this room only shows its newest page.

/// One page of the story.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// A few words in bold.
    pub title: String,
    /// What happens now, in a sentence or two.
    pub text: String,
    /// The key that the presenter presses next, as it stands on the keyboard.
    pub key: Option<String>,
    /// A number that is shown large in the middle of the Overview.
    pub countdown: Option<u8>,
    /// The story is over.
    pub done: bool,
}

impl Story {
    /// Nothing is told, so no room is taken.
    pub(crate) fn is_blank(&self) -> bool {
        self.title.is_empty() && self.text.is_empty()
    }
}
