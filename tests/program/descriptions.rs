//! Completion scripts and man pages for packages: for every command and without settings.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _, path::Path, process};

use clap::{Command, CommandFactory as _};
use seckill_cli::Cli;

use crate::support::{Seckill, run};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

/// The names of the pages of a command and of all below it.
fn pages(command: &Command, path: &str, found: &mut BTreeSet<String>) {
    found.insert(format!("{path}.1"));
    for below in command.get_subcommands() {
        pages(below, &format!("{path}-{}", below.get_name()), found);
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    entries.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn each_shell_has_a_script_that_completes_every_command() {
    let commands = Cli::command();
    for shell in SHELLS {
        let script = run(&["completions", shell]).expect_code(0).stdout;
        for command in commands.get_subcommands() {
            assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
        }
        for word in ["restock", "read-only", "data-dir"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn bash_reads_its_script() {
    let home = Seckill::new();
    let file = home.file("seckill.bash");
    fs::write(&file, home.run(&["completions", "bash"]).expect_code(0).stdout).unwrap();
    let read = process::Command::new("bash").arg("-n").arg(&file).output().unwrap();
    assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");
}

#[test]
fn an_unknown_shell_is_a_usage_error() {
    let ran = run(&["completions", "cmd"]).expect_code(2);
    for shell in SHELLS {
        assert!(ran.stderr.contains(shell), "{ran}");
    }
    run(&["completions"]).expect_code(2);
    run(&["man"]).expect_code(2);
}

#[test]
fn each_command_has_a_man_page_that_every_user_may_read() {
    let home = Seckill::new();
    let dir = home.file("share/man");
    home.run(&["man", "--dir", dir.to_str().unwrap()]).expect_code(0);
    let mut expected = BTreeSet::new();
    pages(&Cli::command(), "seckill", &mut expected);
    assert_eq!(names(&dir), expected);
    assert!(expected.contains("seckill-sale-create.1") && expected.contains("seckill-man.1"));
    let page = fs::read_to_string(dir.join("seckill-sale-create.1")).unwrap();
    let title = format!(".TH seckill-sale-create 1  \"seckill {}\"", env!("CARGO_PKG_VERSION"));
    for word in [title.as_str(), "\\-\\-stock", "REDIS_URL"] {
        assert!(page.contains(word), "{word}: {page}");
    }
    // This process has the same umask; what it creates is as wide.
    let own = home.file("own");
    fs::write(&own, "").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&dir.join("seckill.1")), mode(&own));
    assert!(!home.data_dir().exists());
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let home = Seckill::new();
    let file = home.file("file");
    fs::write(&file, "").unwrap();
    let ran = home.run(&["man", "--dir", file.to_str().unwrap()]).expect_code(1);
    assert!(ran.stderr.contains("pass another path"), "{ran}");
}

#[test]
fn invalid_settings_do_not_block_completions_and_man_pages() {
    let home = Seckill::new();
    let config = home.file("config.toml");
    fs::write(&config, "nonsense = 1\n").unwrap();
    let config = config.to_str().unwrap();
    home.run(&["--config", config, "keys"]).expect_code(2);
    home.run(&["--config", config, "completions", "zsh"]).expect_code(0);
    let dir = home.file("man");
    home.run(&["--config", config, "man", "--dir", dir.to_str().unwrap()]).expect_code(0);
}

#[test]
fn the_help_names_both() {
    let help = run(&["--help"]).expect_code(0).stdout;
    for line in ["completions  Print a completion script", "man          Write the man pages"] {
        assert!(help.contains(line), "{help}");
    }
}
