//! A batch of records as one value.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::body::OwnedBody;

/// What the value of a batch is.
#[derive(Debug, PartialEq, Eq, Encode, Decode)]
pub(super) enum BatchValue {
    /// The records.
    #[n(0)]
    Whole(#[n(0)] ByteVec),
    /// The records are the chunks of this epoch, one after the other.
    #[n(1)]
    Chunked {
        /// The epoch.
        #[n(0)]
        epoch: i64,
        /// How many there are.
        #[n(1)]
        chunks: u32,
    },
}

#[derive(Encode, Decode)]
struct Row {
    #[n(0)]
    record: ByteVec,
    #[n(1)]
    causer: Option<ByteVec>,
}

/// The bytes of a batch. Writing to memory does not fail.
pub(super) fn encode(bodies: &[OwnedBody]) -> Vec<u8> {
    let row = |body: &OwnedBody| Row {
        record: body.record.clone().into(),
        causer: body.causer.clone().map(Into::into),
    };
    let rows: Vec<Row> = bodies.iter().map(row).collect();
    minicbor::to_vec(rows).unwrap_or_default()
}

/// The records of a batch.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<OwnedBody>, String> {
    let rows: Vec<Row> = minicbor::decode(bytes).map_err(|error| error.to_string())?;
    let body = |Row { record, causer }: Row| OwnedBody {
        record: record.into(),
        causer: causer.map(Into::into),
    };
    Ok(rows.into_iter().map(body).collect())
}
