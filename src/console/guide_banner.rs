//! The banner of a guided demonstration: what is happening, and the presenter's next key.

/// One page of the guide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuidePage {
    /// A short title, in bold.
    pub title: String,
    /// What is happening, in a sentence or two.
    pub text: String,
    /// The label of the key that the presenter presses next.
    pub key: Option<String>,
    /// A number shown in large digits in the middle of the Overview.
    pub countdown: Option<u8>,
    /// The guide has ended.
    pub done: bool,
}

impl GuidePage {
    /// Whether there is nothing to show, so that the banner takes no rows.
    pub(crate) fn is_blank(&self) -> bool {
        self.title.is_empty() && self.text.is_empty()
    }
}
