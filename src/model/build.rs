//! Rebuilds this crate when a text of a language changes, in builds that contain the texts: a debug build reads them when it
//! starts.

fn main() {
    let contains_texts = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let changed = if contains_texts { "../../assets/locales" } else { "build.rs" };
    println!("cargo::rerun-if-changed={changed}");
}
