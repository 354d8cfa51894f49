//! The engine against real servers, most of it in this process: one program, so that it is linked once.

#[path = "../support/mod.rs"]
mod support;
#[path = "../world/mod.rs"]
mod world;

mod claims;
mod cuts;
mod data_dir;
mod databases;
mod dead;
mod drills;
mod durability;
mod failover;
mod flush;
mod groups;
mod jobs;
mod kills;
mod letters;
mod locks;
mod looks;
mod losses;
mod managed_redis;
mod order_path;
mod outages;
mod partitions;
mod payment;
mod poison;
mod record;
mod recovery;
mod restarts;
mod retention;
mod rush_outages;
mod rush_stop;
mod servers;
mod store;
mod support_clusters;
mod support_works;
mod topology;
mod workers;
