//! The plans that this coordinator has shown to clients, so that one of them can be reserved by its digest.
//!
//! A shown plan holds nothing and promises nothing: when a client wants to reserve it, it is checked against what is
//! free then. Plans are kept in memory only: the newest [`limits::SHOWN_PLANS_MAX`] of them, within
//! [`limits::SHOWN_BYTES_MAX`]. After a restart all are gone, and their users have to call Plan once more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::{InvalidField, limits};
use coalloc_proto::v1;
use prost::Message as _;

/// Hexadecimal digits of a complete digest (SHA-256).
const DIGEST_LEN: usize = 64;

/// Checks that a text could be a digest, or the beginning of one.
///
/// # Errors
/// When it is too short, too long, or has characters other than hexadecimal digits in lower case.
pub fn check_digest(digest: &str) -> Result<(), InvalidField> {
    let hexadecimal = |sign: u8| sign.is_ascii_digit() || (b'a'..=b'f').contains(&sign);
    let length = limits::DIGEST_PREFIX_MIN..=DIGEST_LEN;
    if length.contains(&digest.len()) && digest.bytes().all(hexadecimal) {
        return Ok(());
    }
    let shortest = limits::DIGEST_PREFIX_MIN;
    let allowed = format!(
        "the digest of a plan, {DIGEST_LEN} hexadecimal digits in lower case, or at least its first \
         {shortest}"
    );
    Err(InvalidField::new("plan_digest", InvalidField::quoted(digest), allowed))
}

/// A plan that was shown to a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownPlan {
    /// Digest of the request for which the plan was shown.
    pub request: String,
    /// The plan as it was shown.
    pub plan: v1::Plan,
}

/// A plan as the cache keeps it: encoded, which takes a tenth of the memory of its strings.
#[derive(Debug)]
struct CachedPlan {
    request: String,
    plan: Vec<u8>,
}

#[derive(Debug, Default)]
struct Memory {
    /// By digest of the plan and of the request: two requests may have the same plan.
    plans: BTreeMap<(String, String), CachedPlan>,
    oldest_first: VecDeque<(String, String)>,
    bytes: usize,
}

/// The shown plans of one coordinator. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct PlanCache {
    memory: Arc<Mutex<Memory>>,
}

impl PlanCache {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Every change below leaves the cache consistent, so a panic elsewhere does not matter.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers plans that are about to be shown for the request with the digest `request`.
    pub fn remember(&self, request: &str, plans: &[v1::Plan]) {
        let mut memory = self.memory();
        for plan in plans {
            let key = (plan.digest.clone(), request.to_owned());
            if memory.plans.contains_key(&key) {
                continue;
            }
            let kept = CachedPlan { request: request.to_owned(), plan: plan.encode_to_vec() };
            memory.bytes += kept.plan.len();
            memory.plans.insert(key.clone(), kept);
            memory.oldest_first.push_back(key);
        }
        while memory.plans.len() > limits::SHOWN_PLANS_MAX || memory.bytes > limits::SHOWN_BYTES_MAX
        {
            let Some(oldest) = memory.oldest_first.pop_front() else { break };
            let forgotten = memory.plans.remove(&oldest);
            memory.bytes -= forgotten.map_or(0, |kept| kept.plan.len());
        }
    }

    /// The plan whose digest begins with `digest`: the one that was shown for this request, if there are several.
    #[must_use]
    pub fn find(&self, digest: &str, request: &str) -> Option<ShownPlan> {
        let memory = self.memory();
        let from = (digest.to_owned(), String::new());
        let of_digest = || {
            let after = memory.plans.range(from.clone()..);
            after.take_while(|((known, _), _)| known.starts_with(digest)).map(|(_, kept)| kept)
        };
        let kept =
            of_digest().find(|kept| kept.request == request).or_else(|| of_digest().next())?;
        let plan = v1::Plan::decode(&kept.plan[..]).ok()?;
        Some(ShownPlan { request: kept.request.clone(), plan })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(number: usize) -> v1::Plan {
        // The digests differ at their beginning.
        let digest = format!("{number:064x}").chars().rev().collect();
        v1::Plan { digest, ..v1::Plan::default() }
    }

    #[test]
    fn a_plan_is_found_by_its_digest_or_how_that_begins_for_its_request() {
        let shown = PlanCache::default();
        shown.remember("one", &[plan(0xabc), plan(1 << 50)]);
        shown.remember("two", &[plan(0xabc)]);
        let digest = plan(0xabc).digest;
        assert_eq!(shown.find(&digest, "two").unwrap().request, "two");
        assert_eq!(shown.find(&digest, "three").unwrap().request, "one");
        let other = plan(1 << 50).digest;
        assert_eq!(shown.find(&other[..16], "one").unwrap().plan, plan(1 << 50));
        assert_eq!(shown.find(&plan(7).digest, "one"), None);
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let shown = PlanCache::default();
        for number in 0..=limits::SHOWN_PLANS_MAX {
            shown.remember("r", &[plan(number)]);
            shown.remember("r", &[plan(number)]);
        }
        assert_eq!(shown.find(&plan(0).digest, "r"), None);
        assert!(shown.find(&plan(1).digest, "r").is_some());
        let large = v1::Plan { solver: "x".repeat(limits::SHOWN_BYTES_MAX - 100), ..plan(1 << 50) };
        shown.remember("r", &[large]);
        assert_eq!(shown.find(&plan(limits::SHOWN_PLANS_MAX - 1).digest, "r"), None);
        assert!(shown.memory().bytes <= limits::SHOWN_BYTES_MAX);
        assert!(shown.find(&plan(1 << 50).digest, "r").is_some());
    }

    #[test]
    fn what_is_no_digest_is_refused_with_what_one_looks_like() {
        assert_eq!(check_digest(&plan(1).digest), Ok(()));
        assert_eq!(check_digest("0123456789ab"), Ok(()));
        for wrong in ["0123456789a", "0123456789AB", "0123456789xy", &"0".repeat(65)] {
            let error = check_digest(wrong).unwrap_err();
            assert_eq!(error.field, "plan_digest");
            assert!(error.allowed.contains("at least its first 12"), "{error}");
        }
    }
}
