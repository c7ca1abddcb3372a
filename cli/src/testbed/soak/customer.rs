//! One customer: makes a reservation, perhaps changes it, perhaps releases it.
//!
//! Some customers send the same call twice at once. Some do not wait for the answer, and some of those
//! never come back. A customer that comes back uses the same id again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coalloc_net::status::{Effect, effect};
use coalloc_proto::v1;
use rand_chacha::ChaCha20Rng;
use tonic::Status;

use super::offers::{OfferedResources, pick};
use super::{Lines, Target, meter::Meter};
use crate::kit::exit::Failure;
use crate::testbed::audit::journal::{CallKnowledge, Entry, Kind};

/// Timeout for an answer; a coordinator always takes less than this.
const PATIENCE: Duration = Duration::from_secs(70);
/// Maximum number of times that one call is sent.
const SENDINGS_MAX: u32 = 40;
/// Longest pause between two sendings of a call, in milliseconds.
const PAUSE_MAX_MS: u64 = 800;
/// Longest time, in milliseconds, after which a customer that does not wait leaves.
const VANISH_MS: u64 = 250;
/// How many of 100 sendings are not waited for.
const VANISHING: u64 = 12;
/// How many of 100 customers who did not wait never come back.
const NEVER_BACK: u64 = 30;
/// How many of 100 sendings are sent twice at once.
const TWICE: u64 = 8;
/// How many of 100 confirmed reservations are changed; the same share of those is changed again.
const CHANGING: u64 = 40;
/// How many of 100 confirmed reservations are released.
const RELEASING: u64 = 75;

/// A customer of the soak.
pub(super) struct SoakClient {
    pub(super) id: String,
    pub(super) target: Target,
    pub(super) offers: Arc<OfferedResources>,
    pub(super) random: ChaCha20Rng,
    pub(super) lines: Arc<Mutex<Lines>>,
    pub(super) meter: Arc<Meter>,
    pub(super) frames: u32,
}

/// A call to be sent, perhaps more than once.
#[derive(Debug, Clone)]
enum Call {
    Reserve(v1::ReserveRequest),
    Modify(v1::ModifyRequest),
    Release(v1::ReleaseReservationRequest),
}

impl Call {
    const fn kind(&self) -> Kind {
        match self {
            Self::Reserve(_) => Kind::Reserve,
            Self::Modify(_) => Kind::Modify,
            Self::Release(_) => Kind::Release,
        }
    }

    fn change(&self) -> &str {
        match self {
            Self::Modify(request) => &request.change_id,
            Self::Reserve(_) | Self::Release(_) => "",
        }
    }

    async fn send(self, target: &Target) -> Result<Option<v1::Reservation>, Status> {
        let mut client = target.client.clone();
        Ok(match self {
            Self::Reserve(request) => client.reserve(request).await?.into_inner().reservation,
            Self::Modify(request) => client.modify(request).await?.into_inner().reservation,
            Self::Release(request) => client.release(request).await?.into_inner().reservation,
        })
    }
}

impl SoakClient {
    /// Makes all calls of the customer.
    pub(super) async fn live(mut self) -> Result<(), Failure> {
        let request = self.offers.draw(&mut self.random);
        let reserve = Call::Reserve(v1::ReserveRequest {
            request_id: self.id.clone(),
            request: Some(request.clone()),
            options: Some(v1::PlanOptions { frames: Some(self.frames), ..Default::default() }),
            plan_digest: String::new(),
        });
        if self.insist(&reserve).await? != Some(CallKnowledge::Confirmed) {
            return Ok(());
        }
        for number in 1..=2 {
            if !self.chance(CHANGING) {
                break;
            }
            let changed = self.offers.change(&request, &mut self.random);
            let modify = Call::Modify(v1::ModifyRequest {
                id: self.id.clone(),
                change_id: format!("{}-c{number}", self.id),
                request: Some(changed),
                options: None,
                may_move: self.chance(50),
            });
            match self.insist(&modify).await? {
                Some(CallKnowledge::Changed | CallKnowledge::Unchanged) => {}
                _ => break,
            }
        }
        if self.chance(RELEASING) {
            let id = self.id.clone();
            let release = v1::ReleaseReservationRequest { id, user: String::new() };
            self.insist(&Call::Release(release)).await?;
        }
        Ok(())
    }

    fn chance(&mut self, of_100: u64) -> bool {
        pick(&mut self.random, 1, 100) <= of_100
    }

    /// Sends a call until there is a final answer; returns `None` if there never was one.
    async fn insist(&mut self, call: &Call) -> Result<Option<CallKnowledge>, Failure> {
        for _ in 0..SENDINGS_MAX {
            let vanishes = self.chance(VANISHING);
            let wait = match vanishes {
                true => Duration::from_millis(pick(&mut self.random, 0, VANISH_MS)),
                false => PATIENCE,
            };
            let said = if self.chance(TWICE) {
                let (one, other) = tokio::join!(self.once(call, wait), self.once(call, wait));
                // Both answers are in the journal; the final one counts here.
                let (one, other) = (one?, other?);
                if is_final(one) { one } else { other }
            } else {
                self.once(call, wait).await?
            };
            if is_final(said) {
                return Ok(Some(said));
            }
            if vanishes && self.chance(NEVER_BACK) {
                return Ok(None);
            }
            let pause = pick(&mut self.random, PAUSE_MAX_MS / 8, PAUSE_MAX_MS);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Ok(None)
    }

    /// Sends a call once, and waits this long for the answer.
    async fn once(&self, call: &Call, wait: Duration) -> Result<CallKnowledge, Failure> {
        let (kind, change) = (call.kind(), call.change());
        let asked = Entry::asked(&self.target.name, &self.id, kind, change);
        self.write(&asked)?;
        let answer = tokio::time::timeout(wait, call.clone().send(&self.target)).await;
        let entry = match answer {
            Ok(Ok(Some(reservation))) => asked.answered(&reservation),
            Ok(Err(status)) if effect(&status) == Effect::Rejected => {
                asked.ended(CallKnowledge::Rejected)
            }
            Ok(Ok(None) | Err(_)) | Err(_) => asked.ended(CallKnowledge::Lost),
        };
        self.write(&entry)?;
        self.meter.said(kind, entry.said);
        Ok(entry.said)
    }

    fn write(&self, entry: &Entry) -> Result<(), Failure> {
        // The journal continues even after a panic in another task.
        let mut lines = self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        lines.add(entry).map_err(|error| Failure::internal(format!("--journal: {error}")))
    }
}

const fn is_final(said: CallKnowledge) -> bool {
    !matches!(said, CallKnowledge::Asked | CallKnowledge::Lost | CallKnowledge::Indefinite)
}
