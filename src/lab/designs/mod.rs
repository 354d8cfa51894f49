//! The designs, a file each, in the order of the tutorials.
//!
//! To add one: a file with a `DESIGN` and its function, a line in `designs!`, and its message `lab-why-NAME` in each
//! catalog. The tests run it against what it declares.

mod prelude;
mod queue;

use seckill_model::reason;

use crate::{Design, LabError, Result};

macro_rules! designs {
    ($($module:ident),* $(,)?) => {
        $(mod $module;)*
        const ALL: &[&Design] = &[$(&$module::DESIGN),*];
    };
}

designs! {
    unguarded,
    guard_after_update,
    version_equal_stock,
    version_column,
    stock_guard,
    compare_and_swap_loop,
    counter_in_memory,
    count_then_insert,
    process_mutex,
    lock_per_string,
    lock_per_interned_key,
    unlock_before_commit,
    unlock_after_commit,
    unique_index,
    setnx_without_expiry,
    setnx_blind_release,
    setnx_owner_check_then_delete,
    setnx_lua_release,
    reentrant,
    watchdog,
    multilock,
    mysql_row_lock,
    fencing_token,
    serial,
    blocking_queue,
    list_brpop,
    pubsub,
    stream_read_dollar,
    stream_group_tutorial,
    stream_group_repaired,
    engine,
}

/// All designs, in the order of the tutorials.
pub fn all() -> &'static [&'static Design] {
    ALL
}

/// The design of this name.
///
/// # Errors
/// There is none; the error lists the names.
pub fn find(name: &str) -> Result<&'static Design> {
    all().iter().find(|it| it.name == name).copied().ok_or_else(|| {
        let names = all().iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
        LabError::Invalid(reason!("lab-no-design", name, names))
    })
}
