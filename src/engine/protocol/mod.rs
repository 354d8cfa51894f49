//! The protocols of the engine as small state machines, which tests explore exhaustively. The steps that a module lists are
//! its faults as well: messages that are lost, delayed, or executed after their sender has given up, processes that stop at
//! any step for any time, leases that expire at any moment, a Redis that is rolled back or emptied. What it leaves out is
//! listed as not modelled.
//!
//! [`sale`] holds the scripts and statements that change a sale; each is named after the code that it stands for. The
//! other modules are one protocol each: its processes, its faults, and what must hold in every state. Where a protocol
//! was changed because it failed, the old rule stays as a variant: a test shows that the model finds its defect.
//!
//! `DEPTH=2 cargo test -p seckill-engine protocol -- --nocapture` explores larger bounds where a module has them.

mod adopt;
mod cut;
mod delivery;
mod moves;
mod reconcile;
mod sale;
mod set_back;

use std::{fmt::Debug, hash::Hash, time::Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

/// Explores every state of a model; with one thread, the steps that it finds are the shortest.
fn explore<M>(name: &str, model: M, end: HasDiscoveries, threads: usize) -> impl Checker<M>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let began = Instant::now();
    let checker = model.checker().finish_when(end).threads(threads).spawn_bfs().join();
    println!(
        "{name}: {} states, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f32()
    );
    checker
}

/// Explores a model that must not fail, and in which everything that it says is possible happens.
fn holds<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    explore(name, model, HasDiscoveries::AnyFailures, 2).assert_properties();
}

/// Explores a model whose rule is known to fail; returns the shortest steps to the failure.
fn fails<M>(name: &str, model: M, property: &'static str) -> Vec<M::Action>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let end = HasDiscoveries::AnyOf([property].into());
    let steps = explore(name, model, end, 1).assert_any_discovery(property);
    let steps = Path::into_actions(steps);
    println!("  {property}: {} steps", steps.len());
    for (number, step) in steps.iter().enumerate() {
        println!("  {:2} {step:?}", number + 1);
    }
    steps
}

/// Bounds of the exploration: 1, or `DEPTH`.
fn depth() -> u8 {
    std::env::var("DEPTH").ok().and_then(|depth| depth.parse().ok()).unwrap_or(1)
}
