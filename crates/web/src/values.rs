//! Attribute values in messages: a number for the kind, and then the value.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::edit::AttributeChanges;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::Entries;
use ztensor_handover::{bigint_value, number_value};

use crate::message::Message;

/// Reads a map.
pub fn entries(message: &mut Message) -> Result<Entries> {
    match value(message)? {
        Value::Map(entries) => Ok(entries),
        _ => Err(Error::new(Code::Internal, "attributes that are not a map")),
    }
}

/// Reads attributes to set, and a map whose keys are removed first: a key of both moves to the end.
pub fn changes(message: &mut Message) -> Result<AttributeChanges> {
    let set = entries(message)?.into_iter().map(|(key, value)| (key, Some(value)));
    let unset = entries(message)?.into_iter().map(|(key, _)| (key, None));
    Ok(unset.chain(set).collect())
}

fn value(message: &mut Message) -> Result<Value> {
    Ok(match message.small()? {
        0 => Value::Null,
        1 => Value::Bool(message.flag()?),
        2 => number_value(message.number()?),
        3 => Value::Text(message.text()?),
        4 => {
            let range = message.range()?;
            Value::Bytes(message.bytes(range).to_vec())
        }
        5 => {
            let (is_negative, range) = (message.flag()?, message.range()?);
            let words = message.bytes(range).as_chunks::<8>().0.iter().copied().map(u64::from_le_bytes);
            bigint_value(is_negative, &words.collect::<Vec<_>>())
        }
        6 => Value::Array((0..message.index()?).map(|_| value(message)).collect::<Result<_>>()?),
        7 => {
            let count = message.index()?;
            let pairs = (0..count).map(|_| Ok((value(message)?, value(message)?)));
            Value::Map(pairs.collect::<Result<_>>()?)
        }
        _ => return Err(Error::new(Code::Internal, "an attribute without a kind")),
    })
}
