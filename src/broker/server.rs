//! Stub until the managed server lands.
#![allow(missing_docs, clippy::all, clippy::pedantic)]
use std::path::{Path, PathBuf};
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct ServerError;
#[derive(Debug)]
pub struct ManagedServer(PathBuf);
pub struct Found {
    pub path: PathBuf,
    pub version: String,
}
pub fn find_server() -> Result<Found, ServerError> {
    Err(ServerError)
}
impl ManagedServer {
    pub async fn attach(_d: &super::data_dir::DataDir) -> Result<Self, ServerError> {
        Ok(Self("/tmp/skr/redis.sock".into()))
    }
    pub fn socket(&self) -> &Path {
        &self.0
    }
    pub async fn ensure(&self) -> Result<(), ServerError> {
        Ok(())
    }
    pub async fn detach(&self) -> Result<(), ServerError> {
        Ok(())
    }
}
