//! What is handed over to a consumer, and how it reads it.

use std::collections::HashMap;

use redis::Value;
use seckill_model::{Label, Reason};
use seckill_redis::RedisError;
use serde::{Deserialize, Serialize};

use crate::{LabError, Result};

/// `VoucherOrder`: what is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VoucherOrder {
    pub(crate) id: i64,
    pub(crate) user_id: i64,
    pub(crate) voucher_id: i64,
}

impl VoucherOrder {
    /// As the text that a list or a channel carries.
    pub(crate) fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }
}

/// What a consumer got from a queue.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The ID in the stream; empty for other queues.
    pub(crate) id: String,
    /// `None` if the entry is not an order.
    pub(crate) order: Option<VoucherOrder>,
}

impl Entry {
    pub(crate) fn of_text(text: &str) -> Self {
        Self { id: String::new(), order: serde_json::from_str(text).ok() }
    }

    /// The reply of BRPOP: the list and the entry, or nil.
    pub(crate) fn popped(reply: Value) -> Result<Option<Self>> {
        let popped: Option<(String, String)> = read(reply)?;
        Ok(popped.map(|(_, text)| Self::of_text(&text)))
    }

    /// The reply of XREAD or XREADGROUP for one entry of one stream, or nil.
    pub(crate) fn delivered(reply: Value) -> Result<Option<Self>> {
        type Read = Option<Vec<(String, Vec<(String, HashMap<String, String>)>)>>;
        let streams: Read = read(reply)?;
        let first = streams.into_iter().flatten().flat_map(|(_, entries)| entries).next();
        Ok(first.map(|(id, fields)| {
            let field = |name: &str| fields.get(name)?.parse().ok();
            let order = || {
                let (id, user_id) = (field("id")?, field("userId")?);
                Some(VoucherOrder { id, user_id, voucher_id: field("voucherId")? })
            };
            Self { id, order: order() }
        }))
    }

    /// The order, as `BeanUtil.fillBeanWithMap`.
    ///
    /// # Errors
    /// It is not one: an exception.
    pub(crate) fn order(&self) -> Result<VoucherOrder> {
        self.order.ok_or_else(|| LabError::Invalid(Reason::from(Label("lab-entry-malformed"))))
    }
}

fn read<T: redis::FromRedisValue>(reply: Value) -> Result<T> {
    let read = T::from_redis_value(reply);
    Ok(read.map_err(|error| RedisError::from_redis(&error.into(), ""))?)
}
