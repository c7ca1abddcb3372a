//! A log that keeps nothing, for worlds in which no node dies and so nobody replays a log.
//!
//! The cores append the records that they would append in a real daemon, and send only afterwards; the
//! records are dropped at once. The fault worlds keep their records.

use std::convert::Infallible;
use std::marker::PhantomData;

use coalloc_protocol::{Log, Unsynced, sync};

struct Forgetful<R>(PhantomData<R>);

impl<R> Log for Forgetful<R> {
    type Record = R;
    type Error = Infallible;

    fn append_caused(
        &mut self,
        _: &[coalloc_protocol::CausedRecord<'_, R>],
    ) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Appends the records of a step to a log that drops them, and returns the effects of the step.
pub(crate) fn released<R, E>(step: Unsynced<R, E>) -> Vec<E> {
    match sync(vec![step], &mut Forgetful(PhantomData)) {
        Ok(synced) => synced.into_effects(),
        Err(never) => match never {},
    }
}
