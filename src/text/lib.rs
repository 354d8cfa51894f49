//! What the console, the command line and reports say alike: figures, times and spans, alarms, stored results, errors of
//! settings files, and text in terminal cells. The catalogs themselves are in [`seckill_model::message`].

pub mod alarms;
pub mod audit_log;
pub mod cells;
pub mod changes;
pub mod figures;
mod sanitize;
pub mod settings;
pub mod time;

use seckill_engine::{SaleLine, commands::AggregateLine, telemetry::snapshot::SqlCopy};
use seckill_model::{Label, Phase, text};

use self::figures::thousands;
pub use self::sanitize::plain;

/// A figure that is not known.
pub const UNKNOWN: Label = Label("common-unknown");

/// The name of a phase in the current language.
pub fn phase(phase: Phase) -> String {
    text!("console-phase", phase)
}

/// The name of the phase of a sale; one that SQL has lost admits no buyers, whatever its phase was.
pub fn sale_phase(sale: &SaleLine) -> String {
    match sale.sql {
        SqlCopy::Lost => Label("sale-lost-in-sql").to_owned(),
        SqlCopy::Current | SqlCopy::Behind => phase(sale.phase),
    }
}

/// Columns of the aggregate report of a load test: its title, then the cell of each line; latencies in milliseconds.
pub fn aggregate(lines: &[AggregateLine]) -> [Vec<String>; 11] {
    let millis = |us: u64| {
        let millis = us as f64 / 1e3;
        let digits = if millis < 10.0 { 2 } else { usize::from(millis < 100.0) };
        format!("{millis:.digits$}")
    };
    let column = |title: &str, cell: &dyn Fn(&AggregateLine) -> String| {
        std::iter::once(title.to_owned()).chain(lines.iter().map(cell)).collect()
    };
    [
        column(&Label("request-outcome"), &|line| line.label.name().to_owned()),
        column(&Label("request-count"), &|line| thousands(line.samples)),
        column(&Label("request-average"), &|line| millis(line.average)),
        column("p50", &|line| millis(line.median)),
        column("p90", &|line| millis(line.p90)),
        column("p95", &|line| millis(line.p95)),
        column("p99", &|line| millis(line.p99)),
        column(&Label("request-min"), &|line| millis(line.min)),
        column(&Label("request-max"), &|line| millis(line.max)),
        column(&Label("request-error-percent"), &|line| format!("{:.1}", line.error_percent)),
        column(&Label("request-per-second"), &|line| thousands(line.per_second as u64)),
    ]
}
