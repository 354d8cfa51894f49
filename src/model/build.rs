//! Rebuilds this crate when a language is added. Cargo detects changes to known files without it.

fn main() {
    println!("cargo::rerun-if-changed=../../assets/locales");
}
