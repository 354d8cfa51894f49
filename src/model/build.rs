//! Builds this crate again when a language is added; changes of known files are noticed without it.

fn main() {
    println!("cargo::rerun-if-changed=../../assets/locales");
}
