//! The JSON document in the body of a request.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest, Request, rejection::BytesRejection},
};
use seckill_model::reason::reason;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::{
    Shared,
    answer::{Refusal, STOPPING},
    connections::LEAVES_WITHIN,
};

/// Maximum length of the description of what is wrong with a document.
const MAX_WHY: usize = 200;

/// A document. Its media type is not checked: whatever it claims to be, it must be JSON.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Refusal> {
        // As a whole: a client that sends a byte now and then would hold its place for long.
        let within = Duration::from_millis(shared.settings.body_ms);
        let stopping = async {
            shared.stopping.cancelled().await;
            sleep(LEAVES_WITHIN).await;
        };
        let bytes = tokio::select! {
            bytes = timeout(within, Bytes::from_request(request, shared)) => bytes,
            () = stopping => return Err(Refusal::Unavailable(STOPPING)),
        };
        let bytes = bytes.map_err(|_| Refusal::SlowBody)?.map_err(|error| broken(&error))?;
        let parsed = Json::<T>::from_bytes(&bytes);
        parsed.map(|Json(document)| Self(document)).map_err(|error| {
            let why: String = error.body_text().chars().take(MAX_WHY).collect();
            Refusal::Invalid(reason!("http-json", why))
        })
    }
}

/// Why a body did not arrive.
fn broken(error: &BytesRejection) -> Refusal {
    if error.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
        Refusal::TooLarge
    } else {
        Refusal::Invalid(reason!("http-body"))
    }
}
