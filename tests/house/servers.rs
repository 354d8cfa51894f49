//! The servers with which the program was tested, as the last run of each has recorded them: `assets/servers.toml`, which
//! `doctor` reads, and the tables of both READMEs.
#![allow(dead_code, reason = "one test reads the record, another one writes it")]

use std::{collections::BTreeSet, fs, path::Path};

const FILE: &str = "assets/servers.toml";
const HEAD: &str =
    "# Written by SERVERS=… SERVERS_RECORD=1 cargo test --test engine server_matrix.\n";
const BEGIN: &str = "<!-- From assets/servers.toml, which the test of servers writes. -->\n";
const END: &str = "<!-- The end of what is written. -->\n";

/// A README, the texts of its table, and the names of its settings, where they are not those of the servers.
struct Language {
    readme: &'static str,
    title: fn(&str) -> String,
    columns: &'static str,
    refused: &'static str,
    comma: &'static str,
    words: &'static [(&'static str, &'static str)],
}

const LANGUAGES: [Language; 2] = [
    Language {
        readme: "README.md",
        title: |dates| format!("Tested ({dates}), each version with these settings:"),
        columns: "| server | versions | settings |",
        refused: "; refused: ",
        comma: ", ",
        words: &[],
    },
    Language {
        readme: "assets/README.zh.md",
        title: |dates| format!("实测（{dates}），每个版本都跑过右列的设置："),
        columns: "| 服务端 | 版本 | 设置 |",
        refused: "；拒绝：",
        comma: "、",
        words: &[
            ("defaults", "默认设置"),
            ("minimal ACL", "最小 ACL"),
            ("minimal grants", "最小授权"),
            ("grants to create tables", "只有建表授权"),
            ("empty sql_mode", "空 sql_mode"),
            ("required primary keys", "强制主键"),
            ("small packets", "小数据包"),
            ("increment of IDs", "自增步长"),
            ("binary log", "二进制日志"),
            ("MyISAM by default", "默认引擎 MyISAM"),
            ("limits of the server", "服务端超时"),
            ("TLS with client certificates", "TLS 加客户端证书"),
            ("proxy that drops idle connections", "会断开空闲连接的代理"),
        ],
    },
];

/// A version, and what came of each setting.
pub(crate) struct Tested {
    /// Its name in the test.
    pub(crate) name: String,
    pub(crate) date: String,
    pub(crate) product: String,
    pub(crate) version: String,
    pub(crate) passed: Vec<String>,
    pub(crate) refused: Vec<String>,
}

pub(crate) struct Record {
    pub(crate) server: Vec<Tested>,
}

fn top(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

impl Record {
    /// What the last run has recorded.
    pub(crate) fn read() -> Self {
        let file: toml::Table = fs::read_to_string(top(FILE)).unwrap().parse().unwrap();
        let text = |it: &toml::Value| it.as_str().unwrap().to_owned();
        let texts = |it: &toml::Value| it.as_array().unwrap().iter().map(text).collect();
        let tested = |it: &toml::Value| Tested {
            name: text(&it["name"]),
            date: text(&it["date"]),
            product: text(&it["product"]),
            version: text(&it["version"]),
            passed: texts(&it["passed"]),
            refused: texts(&it["refused"]),
        };
        let server = file["server"].as_array().unwrap().iter().map(tested).collect();
        Self { server }
    }

    /// Writes the file and the tables.
    pub(crate) fn write(&self) {
        let mut file = HEAD.to_owned();
        for Tested { name, date, product, version, passed, refused } in &self.server {
            file += &format!("\n[[server]]\nname = {name:?}\ndate = {date:?}\n");
            file += &format!("product = {product:?}\nversion = {version:?}\n");
            file += &format!("passed = {passed:?}\nrefused = {refused:?}\n");
        }
        fs::write(top(FILE), file).unwrap();
        for (path, text) in self.readmes() {
            fs::write(top(path), text).unwrap();
        }
    }

    /// Each README, with its table as it should be.
    pub(crate) fn readmes(&self) -> Vec<(&'static str, String)> {
        let readme = |language: &Language| {
            let text = fs::read_to_string(top(language.readme)).unwrap();
            let (before, rest) = text.split_once(BEGIN).expect("the line where the table begins");
            let (_, after) = rest.split_once(END).expect("the line where it ends");
            (language.readme, format!("{before}{BEGIN}{}{END}{after}", self.table(language)))
        };
        LANGUAGES.iter().map(readme).collect()
    }

    fn table(&self, language: &Language) -> String {
        let mut products: Vec<&str> = self.server.iter().map(|it| it.product.as_str()).collect();
        products.dedup();
        let dates: BTreeSet<&str> = self.server.iter().map(|it| it.date.as_str()).collect();
        let mut dates: Vec<&str> = dates.first().into_iter().chain(dates.last()).copied().collect();
        dates.dedup();
        let title = (language.title)(&dates.join("–"));
        let mut table = format!("{title}\n\n{}\n| --- | --- | --- |\n", language.columns);
        for product in products {
            let all: Vec<&Tested> = self.server.iter().filter(|it| it.product == product).collect();
            let (works, too_old): (Vec<&Tested>, Vec<&Tested>) =
                all.iter().copied().partition(|it| !it.passed.is_empty());
            let names = |of: &[&Tested]| {
                of.iter().map(|it| it.version.as_str()).collect::<Vec<_>>().join(language.comma)
            };
            let mut versions = names(&works);
            if !too_old.is_empty() {
                versions += &format!("{}{}", language.refused, names(&too_old));
            }
            let mut seen = BTreeSet::new();
            let passed = works.iter().flat_map(|it| &it.passed).filter(|it| seen.insert(*it));
            let passed = passed.map(|setting| {
                let (with, without): (Vec<&Tested>, Vec<&Tested>) =
                    works.iter().copied().partition(|it| it.passed.contains(setting));
                let name = language.name(setting);
                if without.is_empty() { name } else { format!("{name} ({})", names(&with)) }
            });
            let mut settings = passed.collect::<Vec<_>>().join(language.comma);
            let mut seen = BTreeSet::new();
            let refused = works.iter().flat_map(|it| &it.refused).filter(|it| seen.insert(*it));
            let refused: Vec<String> = refused.map(|it| language.name(it)).collect();
            if !refused.is_empty() {
                settings += &format!("{}{}", language.refused, refused.join(language.comma));
            }
            table += &format!("| {product} | {versions} | {settings} |\n");
        }
        table + "\n"
    }
}

impl Language {
    fn name(&self, setting: &str) -> String {
        let word = self.words.iter().find(|(name, _)| *name == setting);
        word.map_or(setting, |(_, word)| word).to_owned()
    }
}
