//! The console as a whole, on a fake engine: what it shows, what it sends, how its loop behaves.

mod chinese;
mod conventions;
mod director;
mod export;
mod fixture;
mod fuzz;
mod history;
mod kept;
mod keys;
mod layout;
mod letters;
mod looping;
mod marks;
mod orders;
mod presenter;
mod reasons;
mod recovery;
mod sales;
mod screens;
mod stream;
mod words;
