//! Context of an operator's commands.

use std::sync::Arc;

use crate::{
    admission::Admission,
    deployment::{Deployment, servers::Servers},
    locks::Locks,
    node::outbox::Outbox,
    telemetry::Meters,
};

/// Connections, limits and the identity of an operator. Cheap to clone; each command opens its own connection.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Servers and settings.
    pub deployment: Deployment,
    /// Who commands, for the audit log.
    pub login: String,
    /// Name of this node, under which entries are claimed.
    pub node: String,
    /// Locks of this node; a job that is run by hand takes its own.
    pub locks: Locks,
    /// Every command that changes something is rejected.
    pub read_only: bool,
    /// Takes the requests of simulated buyers; `None` where no engine runs.
    pub admission: Option<Admission>,
    /// Where progress is shown, and operations of this process are stopped.
    pub meters: Arc<Meters>,
    /// The reason that the operator gave, for the audit log.
    pub reason: Option<String>,
    /// Lines of the audit log that are not written yet.
    pub outbox: Outbox,
}

impl Operator {
    /// The servers, over a separate connection.
    pub fn servers(&self) -> Servers {
        self.deployment.servers()
    }
}
