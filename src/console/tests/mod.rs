//! Tests of the whole console against a fake engine: what it shows, what it sends, how its loop behaves.

mod alarms;
mod attach;
mod chinese;
mod conventions;
mod dialogs;
mod director;
mod display;
mod export;
mod fixture;
mod fuzz;
mod history;
mod lab;
mod layout;
mod ledger;
mod letters;
mod looping;
mod orders;
mod paging;
mod prelude;
mod presenter;
mod recovery;
mod sales;
mod screens;
mod stream;
mod truth;
