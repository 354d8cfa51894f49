//! IDs in the path of a request.

use std::str::FromStr;

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use seckill_model::{Label, Reason};

use crate::{Shared, answer::Refusal};

/// The parameter of the path, parsed as the command line parses it, so that an error has the same message.
#[derive(Debug)]
pub(crate) struct PathId<T>(pub(crate) T);

impl<T: FromStr<Err = Reason>> FromRequestParts<Shared> for PathId<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Refusal> {
        let invalid = || Refusal::Invalid(Label("http-path").into());
        let params = RawPathParams::from_request_parts(parts, shared).await;
        let params = params.map_err(|_| invalid())?;
        let (_, id) = params.iter().next().ok_or_else(invalid)?;
        id.parse().map(Self).map_err(Refusal::Invalid)
    }
}
