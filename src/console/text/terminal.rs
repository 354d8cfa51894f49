//! Words of the terminal: why nothing can be drawn on it, and what is drawn instead of all that there is.

use std::io;

use super::{
    lang::{tell, word},
    system,
};

pub(crate) fn none() -> String {
    word(
        "the console needs a terminal; use 'seckill status --json' or 'seckill demo --headless' here",
        "控制台需要终端；此处请用 'seckill status --json' 或 'seckill demo --headless'",
    )
    .to_owned()
}

/// A terminal that draws lines only, by the name that `TERM` gives it.
pub(crate) fn dumb(term: Option<&str>) -> String {
    let kind = match term {
        Some(term) => tell!("a terminal of the kind '{term}'", "“{term}”类终端"),
        None => tell!("a terminal without a kind (TERM is not set)", "类型不明的终端（未设 TERM）"),
    };
    tell!(
        "{kind} can't be drawn on; use 'seckill status' or 'seckill demo --headless' here, or say which one it is, \
         such as TERM=xterm-256color",
        "{kind}无法绘制；此处请用 'seckill status' 或 'seckill demo --headless'，或说明终端类型，如 TERM=xterm-256color"
    )
}

pub(crate) fn broken(why: &io::Error) -> String {
    let why = system::fault(why);
    tell!(
        "the terminal does not work: {why}; 'seckill doctor' checks it",
        "终端出错：{why}；请用 'seckill doctor' 检查"
    )
}

/// The locale allows no more than ASCII: what is drawn, and why.
pub(crate) fn plain_locale(locale: &str, ascii: bool) -> String {
    // Chinese has no ASCII, and is drawn only where somebody asked for it.
    if ascii {
        tell!(
            "{locale} is no UTF-8 locale: drawn in ASCII; a UTF-8 locale such as C.UTF-8 shows it all",
            "{locale} 不是 UTF-8 环境：因 --lang zh 文字仍用 UTF-8；如有乱码请用 --lang en"
        )
    } else {
        tell!(
            "{locale} is no UTF-8 locale: drawn in UTF-8 all the same, as --lang zh asks",
            "{locale} 不是 UTF-8 环境：因 --lang zh 仍以 UTF-8 绘制；如有乱码请用 --lang en"
        )
    }
}
