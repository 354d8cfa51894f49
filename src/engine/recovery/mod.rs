//! Redis and SQL after a failure: compared, completed and delivered again.

pub mod adoption;
pub mod comparison;
pub mod dead_letters;
pub(crate) mod delivery;
pub mod former_names;
pub mod partition_repair;
pub mod reconcile;
pub mod repair;
pub mod sale_versions;
pub(crate) mod sharded_sale;
