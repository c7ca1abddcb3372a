//! One customer: reserves, perhaps changes it, perhaps releases it. Some ask the same twice at once, some do
//! not wait for the answer, some of those never come back. Whoever comes back asks under the same id.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coalloc_net::status::{Effect, effect};
use coalloc_proto::v1;
use rand_chacha::ChaCha20Rng;
use tonic::Status;

use super::offers::{Offers, pick};
use super::{Lines, Target, meter::Meter};
use crate::audit::journal::{Entry, Kind, Said};
use crate::exit::Failure;

/// How long a customer waits for an answer; longer than a coordinator takes for one in any case.
const PATIENCE: Duration = Duration::from_secs(70);
/// Times that one call is sent.
const SENDINGS_MAX: u32 = 40;
/// Longest pause between two of them, in milliseconds.
const PAUSE_MAX_MS: u64 = 800;
/// Who does not wait goes after so many milliseconds at most.
const VANISH_MS: u64 = 250;
/// Of 100 sendings, how many are not waited for.
const VANISHING: u64 = 12;
/// Of 100 who have not waited, how many never come back.
const NEVER_BACK: u64 = 30;
/// Of 100 sendings, how many are sent twice at once.
const TWICE: u64 = 8;
/// Of 100 confirmed reservations, how many are changed; and then of those again.
const CHANGING: u64 = 40;
/// Of 100 confirmed reservations, how many are released.
const RELEASING: u64 = 75;

/// A customer.
pub(super) struct Customer {
    pub(super) id: String,
    pub(super) target: Target,
    pub(super) offers: Arc<Offers>,
    pub(super) random: ChaCha20Rng,
    pub(super) lines: Arc<Mutex<Lines>>,
    pub(super) meter: Arc<Meter>,
    pub(super) frames: u32,
}

/// A call to be sent, perhaps again.
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

impl Customer {
    /// The whole of its life.
    pub(super) async fn live(mut self) -> Result<(), Failure> {
        let request = self.offers.draw(&mut self.random);
        let reserve = Call::Reserve(v1::ReserveRequest {
            request_id: self.id.clone(),
            request: Some(request.clone()),
            options: Some(v1::PlanOptions { frames: Some(self.frames), ..Default::default() }),
            plan_digest: String::new(),
        });
        if self.insist(&reserve).await? != Some(Said::Confirmed) {
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
                Some(Said::Changed | Said::Unchanged) => {}
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

    /// Sends a call until there is a final answer; None when there never was one.
    async fn insist(&mut self, call: &Call) -> Result<Option<Said>, Failure> {
        for _ in 0..SENDINGS_MAX {
            let vanishes = self.chance(VANISHING);
            let wait = match vanishes {
                true => Duration::from_millis(pick(&mut self.random, 0, VANISH_MS)),
                false => PATIENCE,
            };
            let said = if self.chance(TWICE) {
                let (one, other) = tokio::join!(self.once(call, wait), self.once(call, wait));
                // Both are in the journal; what is final counts here.
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

    /// Sends a call once, and waits so long.
    async fn once(&self, call: &Call, wait: Duration) -> Result<Said, Failure> {
        let (kind, change) = (call.kind(), call.change());
        let asked = Entry::asked(&self.target.name, &self.id, kind, change);
        self.write(&asked)?;
        let answer = tokio::time::timeout(wait, call.clone().send(&self.target)).await;
        let entry = match answer {
            Ok(Ok(Some(reservation))) => asked.answered(&reservation),
            Ok(Err(status)) if effect(&status) == Effect::Rejected => asked.ended(Said::Rejected),
            Ok(Ok(None) | Err(_)) | Err(_) => asked.ended(Said::Lost),
        };
        self.write(&entry)?;
        self.meter.said(kind, entry.said);
        Ok(entry.said)
    }

    fn write(&self, entry: &Entry) -> Result<(), Failure> {
        // A journal goes on after a panic elsewhere.
        let mut lines = self.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        lines.add(entry).map_err(|error| Failure::internal(format!("--journal: {error}")))
    }
}

const fn is_final(said: Said) -> bool {
    !matches!(said, Said::Asked | Said::Lost | Said::Indefinite)
}
