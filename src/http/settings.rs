//! Settings of the HTTP server, and the reasons for their defaults.

use std::{net::SocketAddr, time::Duration};

use seckill_model::settings;

use crate::client::ProxyNetwork;

settings! {
    /// Settings of the HTTP server.
    "http" HttpSettings {
        /// Maximum number of open connections; a further one is closed immediately. Fewer if the limit of open files is too
        /// low for these and for the engine.
        pub connections: usize = 16_384, 1..=1_000_000;
        /// The same for one address, unless it is that of a trusted proxy; 0 for no limit.
        pub address_connections: usize = 1_024, 0..=1_000_000;
        /// Maximum number of requests in progress; a further one is answered with 503 immediately.
        pub requests: usize = 8_192, 1..=1_000_000;
        /// Milliseconds within which a client has to send the headers of a request; an idle connection is closed after
        /// the same time.
        pub header_ms: u64 = 15_000, 100..=600_000;
        /// Milliseconds within which the body of a request has to arrive.
        pub body_ms: u64 = 5_000, 100..=600_000;
        /// Milliseconds after which a connection is closed whose client reads no more of its answers.
        pub write_ms: u64 = 10_000, 100..=600_000;
        /// Maximum size of a request body in bytes.
        pub body_bytes: usize = 65_536, 1_024..=1_048_576;
        /// Maximum number of requests of one user per second; 0 for no limit.
        pub user_per_second: u32 = 100, 0..=1_000_000;
        /// The same for one address; 0 for no limit.
        pub address_per_second: u32 = 1_000, 0..=1_000_000;
        /// Address for metrics, health checks and the endpoints of operators, which the address for buyers then has no more.
        pub admin_listen: Option<SocketAddr> = None;
        /// Networks of the proxies whose `Forwarded` or `X-Forwarded-For` is believed. Without them, the address of a proxy
        /// is that of all its clients.
        pub trusted_proxies: Vec<ProxyNetwork> = Vec::new();
        /// Log login codes instead of sending them: for a demo, because a reader of the log can log in as any user.
        /// Without it, there is no login by code.
        pub demo_login: bool = false;
        /// Maximum number of login codes per minute.
        pub codes_per_minute: u32 = 6_000, 1..=1_000_000;
        /// The same for one address.
        pub address_codes_per_minute: u32 = 60, 1..=1_000_000;
        /// Maximum number of wrong login codes per minute; beyond it, users log in only where they have logged in before.
        pub wrong_codes_per_minute: u32 = 600, 1..=1_000_000;
        /// Milliseconds that a session lasts after its last request.
        pub session_ms: u64 = 1_800_000, 10_000..=2_592_000_000;
    }
}

impl HttpSettings {
    /// How long a session lasts after its last request.
    pub fn session(&self) -> Duration {
        Duration::from_millis(self.session_ms)
    }
}
