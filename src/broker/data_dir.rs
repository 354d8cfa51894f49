//! Stub.
#![allow(missing_docs, clippy::all, clippy::pedantic)]
use std::path::{Path, PathBuf};
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct DataDirError;
#[derive(Debug)]
pub struct DataDir(PathBuf, Option<tempfile::TempDir>);
pub struct NodeSlot;
impl NodeSlot {
    pub fn number(&self) -> u32 {
        1
    }
}
impl DataDir {
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        std::fs::create_dir_all(path).unwrap();
        Ok(Self(path.to_path_buf(), None))
    }
    pub fn throw_away() -> Result<Self, DataDirError> {
        let t = tempfile::tempdir().unwrap();
        Ok(Self(t.path().to_path_buf(), Some(t)))
    }
    pub fn default_path() -> Result<PathBuf, DataDirError> {
        Ok(PathBuf::from("/tmp/sk"))
    }
    pub fn log_path(&self) -> PathBuf {
        self.0.join("seckill.log")
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
    pub fn database_url(&self) -> String {
        format!("sqlite:{}", self.0.join("seckill.db").display())
    }
    pub fn node_slot(&self) -> Result<NodeSlot, DataDirError> {
        Ok(NodeSlot)
    }
}
