//! Stub
#![allow(missing_docs)]
use crate::engine::command::Remote;
use tokio::sync::watch;
#[derive(Debug, thiserror::Error)]
pub enum ConsoleError {
    #[error("the console needs a terminal")]
    NotATerminal,
}
#[derive(Clone, Copy, Debug, Default)]
pub enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}
#[derive(Clone, Debug, Default)]
pub struct Story {
    pub title: String,
    pub text: String,
    pub key: Option<String>,
    pub countdown: Option<u8>,
    pub done: bool,
}
#[derive(Debug, Default)]
pub struct Options {
    pub color: ColorChoice,
    pub story: Option<watch::Receiver<Story>>,
}
pub async fn run(_r: Remote, _o: Options) -> Result<(), ConsoleError> {
    Ok(())
}
