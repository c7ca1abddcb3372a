//! Reads one record back at start: checks the chain, decodes the record and passes it to the state
//! machine, in this order.
//!
//! The real ledger and the simulated one both read through this module, so what a fault run finds
//! about a damaged log is true of the real one, too. Left out: where the rows come from.

use std::path::Path;

use coalloc_protocol::ReplayError;
use serde::de::DeserializeOwned;

use crate::body::Body;
use crate::chain::Chain;
use crate::error::LedgerError;

/// Checks one row (sequence number, body, hash) against the chain and passes its record on.
pub(crate) fn record<R: DeserializeOwned>(
    path: &Path,
    chain: &mut Chain,
    sequence: i64,
    body: Body<'_>,
    hash: &[u8],
    replay: &mut impl FnMut(u64, R) -> Result<(), ReplayError>,
) -> Result<(), LedgerError> {
    let expected = chain.last + 1;
    chain.verify(sequence, body, hash).map_err(|why| LedgerError::ChainBroken {
        path: path.to_owned(),
        sequence: expected,
        why,
    })?;
    decoded(path, expected, body, replay)
}

/// Decodes a record that has been checked against the chain, and passes it on.
pub(crate) fn decoded<R: DeserializeOwned>(
    path: &Path,
    sequence: u64,
    body: Body<'_>,
    replay: &mut impl FnMut(u64, R) -> Result<(), ReplayError>,
) -> Result<(), LedgerError> {
    let record = body.record().map_err(|source| LedgerError::Undecodable {
        path: path.to_owned(),
        sequence,
        source,
    })?;
    replay(sequence, record).map_err(|source| LedgerError::DoesNotFit {
        path: path.to_owned(),
        sequence,
        source,
    })
}
