//! Words of what is wrong in a file of settings, in `[keys]` and in a theme, each with the next step.

use std::{io, path::Path};

use seckill_model::OutOfRange;

use super::{
    lang::{tell, word},
    system,
};

/// A fault at its line.
pub fn at(line: usize, told: &str) -> String {
    tell!("line {line}: {told}", "第 {line} 行：{told}")
}

/// A fault of a file.
pub fn misread(path: &Path, why: &str) -> String {
    let path = path.display();
    tell!("the config file {path} is not understood: {why}", "配置文件 {path} 无法识别：{why}")
}

/// A file that cannot be opened.
pub fn unreadable(path: &Path, why: &io::Error) -> String {
    let (path, why) = (path.display(), system::fault(why));
    tell!(
        "the config file {path} can't be read ({why}); check --config",
        "配置文件 {path} 无法读取（{why}），请检查 --config"
    )
}

/// Faults that are told; a file with more of them is another file.
const TOLD: usize = 20;

/// The faults of a file by their lines, each in a line of its own where there are several, and how many others there are.
pub fn all(mut faults: Vec<(usize, String)>) -> String {
    faults.sort_by_key(|(line, _)| *line);
    // A name in quotes may hold a line break of its own.
    let told =
        faults.iter().take(TOLD).map(|(line, told)| at(*line, &told.replace(['\n', '\r'], " ")));
    let told: Vec<_> = told.collect();
    let told = match told.as_slice() {
        [one] => one.clone(),
        several => format!("\n  {}", several.join("\n  ")),
    };
    match faults.len().saturating_sub(TOLD) {
        0 => told,
        1 => tell!("{told} (1 more fault)", "{told}（另有 1 处错误）"),
        more => tell!("{told} ({more} more faults)", "{told}（另有 {more} 处错误）"),
    }
}

/// No TOML; the parser tells why in English only.
pub fn syntax(why: &str) -> String {
    if why.starts_with("duplicate key") {
        return tell!("{why}; take one of the two out", "重复的设置项，请删去其中一个");
    }
    let known = SYNTAX.iter().find(|(en, _)| why.starts_with(en));
    let chinese = known.map_or(String::new(), |(_, zh)| format!("（{zh}）"));
    tell!(
        "{why}; mend the line or take it out; what the file does not say keeps its default",
        "不符合 TOML 语法{chinese}，请改正或删去此行，文件中没有的设置用默认值"
    )
}

/// What the parser says of the mistakes that a person makes, by how it begins.
const SYNTAX: &[(&str, &str)] = &[
    ("string values must be quoted", "文本须加引号"),
    ("key with no value", "缺少“=”和值"),
    ("missing value", "缺少值"),
    ("missing assignment", "缺少“=”"),
    ("extra `=`", "多余的“=”"),
    ("extra assignment", "多余的“=”"),
    ("unclosed table", "缺少“]”"),
    ("unclosed array", "缺少“]”"),
    ("unclosed inline table", "缺少“}”"),
    ("missing comma", "缺少逗号"),
    ("extra comma", "多余的逗号"),
    ("missing opening quote", "缺少引号"),
    ("invalid basic string", "引号不成对，或有无效的转义"),
    ("invalid literal string", "引号不成对"),
    ("missing escaped value", "“\\”后的转义无效"),
    ("unquoted keys cannot be empty", "缺少设置项名称"),
    ("invalid unquoted key", "设置项名称无效"),
    ("unexpected key or value", "此行末尾有多余内容"),
    ("unexpected content", "此行末尾有多余内容"),
    ("unexpected leading zero", "数字不能以 0 开头"),
    ("invalid integer", "数字无效"),
    ("invalid float", "数字无效"),
    ("`_` may only go between digits", "“_”只能在数字之间"),
];

/// A file that is no text.
pub fn not_utf8() -> String {
    tell!(
        "the text is not UTF-8; save the file as UTF-8, or take the line out",
        "不是 UTF-8 文本，请另存为 UTF-8，或删去此行"
    )
}

/// A name that no setting has.
pub fn unknown(key: &str, known: &str) -> String {
    tell!(
        "there is no setting '{key}'; take the line out, or write one of {known}",
        "没有设置项“{key}”，请删去此行，或改为其中之一：{known}"
    )
}

/// A setting that has no effect.
pub fn nothing_reads_it(why: &str) -> String {
    tell!("{why}; take the line out, nothing reads it", "{why}；可删去此行，它不起作用")
}

/// A value that cannot be used, and what holds without it.
pub fn wrong(why: &str, instead: &str) -> String {
    tell!(
        "{why}; mend it or take the line out, and {instead}",
        "值不可用：{why}；删去此行则{instead}"
    )
}

/// A fault in the theme that a setting names.
pub fn of_theme(why: &str, instead: &str) -> String {
    tell!("{why}; without the setting 'theme' {instead}", "{why}；不设 theme 则{instead}")
}

/// A value of a kind that the setting does not take; the parser names that kind as the program does.
pub fn expected(wanted: &str) -> String {
    let kind = match wanted {
        "usize" | "u64" | "u32" | "u16" | "u8" => word("a whole number without a sign", "非负整数"),
        "isize" | "i64" | "i32" | "i16" | "i8" => word("a whole number", "整数"),
        "f64" | "f32" => word("a number", "数字"),
        "a boolean" | "bool" => word("true or false", "真假值（true 或 false）"),
        "a string" | "a borrowed string" | "path string" => {
            word("a text in quotes", "带引号的文本")
        }
        "a map" => word("a section of settings", "一组设置"),
        _ if wanted.starts_with("struct ") => word("a section of settings", "一组设置"),
        _ => {
            let names = wanted.trim_start_matches("one of ").replace('`', "\"");
            return tell!("expected {wanted}", "应为 {names}");
        }
    };
    tell!("expected {kind}", "应为{kind}")
}

/// A fault that the parser does not name.
pub fn unfit() -> String {
    tell!("this can't be used", "无法使用")
}

/// The value that holds without the setting.
pub fn default(key: &str, value: &str) -> String {
    tell!("the default ({key} = {value}) stands", "用默认值（{key} = {value}）")
}

/// What holds without several settings.
pub fn defaults() -> String {
    tell!("the defaults stand", "用默认值")
}

/// What stands where a setting is left out that has no fixed default.
pub fn no_fixed_default(key: &str) -> Option<&'static str> {
    let told = match key {
        "data_dir" => word("the XDG data directory is used", "使用 XDG 数据目录"),
        "redis" => word("the program keeps a Redis of its own", "程序自带 Redis"),
        "database" => word("orders go to SQLite in the data dir", "使用数据目录中的 SQLite"),
        "partitions" => word(
            "the deployment keeps the partitions that it has, or has 1",
            "沿用现有的分区数，没有则为 1",
        ),
        "node" => word("the node gets a name of its own", "节点自动命名"),
        "export_dir" => word("exports go to the working directory", "导出到当前目录"),
        "store.ca" | "redis_ca" => {
            word("the certificates of the system are trusted", "只信任系统证书")
        }
        _ => return None,
    };
    Some(told.read())
}

/// A number out of its range.
pub fn range(fault: &OutOfRange) -> String {
    let OutOfRange { name, value, least, most } = fault;
    tell!("{fault}", "{name} 为 {value}，须在 {least} 到 {most} 之间")
}

/// A name that no node can have.
pub fn node() -> String {
    tell!(
        "node must be 1 to 64 letters, digits, '-', '_' or '.'",
        "node 须为 1 到 64 个字母、数字、'-'、'_' 或 '.'"
    )
}

/// Faults of `[keys]`.
pub mod keys {
    use crate::text::lang::tell;

    /// A name that no action has.
    pub fn no_action(written: &str) -> String {
        tell!(
            "there is no action '{written}' in [keys]; 'seckill keys' lists the names",
            "[keys] 中没有操作“{written}”，'seckill keys' 列出全部名称"
        )
    }

    /// A fault of one action.
    pub fn of(action: &str, why: &str) -> String {
        tell!("'{action}': {why}", "“{action}”：{why}")
    }

    /// A key that is too easy to press for what changes something.
    pub fn no_capital(action: &str, written: &str) -> String {
        tell!(
            "'{action}' changes something, so it stands on a capital letter, and '{written}' is none",
            "“{action}”会改动数据，只能用大写字母，“{written}”不是"
        )
    }

    /// A key that would answer the question that it opens.
    pub fn answers(action: &str, written: &str) -> String {
        tell!(
            "'{action}' can't be '{written}': a capital opens a question, and pressed twice it would answer it",
            "“{action}”不能用“{written}”：大写字母打开确认框，连按两次就会确认"
        )
    }

    /// A key that would be typed as text.
    pub fn is_text(action: &str, written: &str) -> String {
        tell!(
            "'{action}' holds also where text is typed, so it needs a key such as 'ctrl-q', and '{written}' is text",
            "“{action}”在输入文字时也有效，需要 'ctrl-q' 这样的键，“{written}”是文字"
        )
    }

    /// An action that lost all its keys.
    pub fn none_left(action: &str) -> String {
        tell!("'{action}' has no key left", "“{action}”没有按键了")
    }

    /// A key of two actions.
    pub fn both(action: &str, other: &str, key: &str) -> String {
        tell!(
            "'{action}' and '{other}' would both be '{key}' where both hold",
            "“{action}”和“{other}”会同时是“{key}”"
        )
    }

    /// A name that no key has.
    pub fn no_key(shown: &str, names: &str) -> String {
        tell!(
            "'{shown}' is no key; write a character, 'ctrl-n', 'alt-x', 'f5', or one of {names}",
            "“{shown}”不是按键，请写一个字符、'ctrl-n'、'alt-x'、'f5'，或其中之一：{names}"
        )
    }

    /// A modifier of a key that does not take it.
    pub fn no_letter(written: &str) -> String {
        tell!("'{written}': ctrl goes with a letter only", "“{written}”：ctrl 只能与字母组合")
    }

    /// Two names of one key.
    pub fn same(written: &str, other: &str) -> String {
        tell!(
            "'{written}' can't be told from '{other}' by a terminal; write '{other}'",
            "终端无法区分“{written}”和“{other}”，请写“{other}”"
        )
    }
}

/// Faults of a theme.
pub mod theme {
    use std::{io, path::Path};

    use crate::text::{lang::tell, system};

    /// A name that no theme has.
    pub fn unknown(name: &str, names: &str) -> String {
        tell!(
            "there is no theme '{name}'; give {names}, or a TOML file such as ./{name}.toml",
            "没有主题“{name}”，请用 {names}，或 ./{name}.toml 这样的 TOML 文件"
        )
    }

    /// A theme that cannot be opened.
    pub fn unreadable(path: &Path, why: &io::Error) -> String {
        let (path, why) = (path.display(), system::fault(why));
        tell!(
            "the theme {path} can't be read ({why}); check --theme",
            "主题 {path} 无法读取（{why}），请检查 --theme"
        )
    }

    /// A file that is no theme.
    pub fn misread(path: &Path, why: &str) -> String {
        let path = path.display();
        tell!("the theme {path} is not understood: {why}", "主题 {path} 无法识别：{why}")
    }

    /// A theme to start from that does not exist.
    pub fn no_base(names: &str) -> String {
        tell!(
            "base is one of {names}; take the line out, and 'dark' stands",
            "base 须为 {names} 之一；删去此行则用 'dark'"
        )
    }

    /// A name that no role has.
    pub fn no_role(name: &str, known: &str) -> String {
        tell!(
            "there is no role '{name}'; take the line out, or write one of base, {known}",
            "没有用途“{name}”，请删去此行，或改为其中之一：base、{known}"
        )
    }

    /// A value that is no colour.
    pub fn no_colour(role: &str, base: &str) -> String {
        tell!(
            "{role} is no colour; give \"#rrggbb\", a number from 0 to 255, or a name such as \"bright-red\" or \
             \"default\", or take the line out, and the {role} of '{base}' stands",
            "{role} 不是颜色，请用 \"#rrggbb\"、0 到 255 的数字，或 \"bright-red\"、\"default\" 这样的名称；删去此行则用 \
             '{base}' 的 {role}"
        )
    }
}
