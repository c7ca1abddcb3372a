//! What one planning believes: profiles copied out of the picture, so that updates go on meanwhile.

use std::collections::BTreeMap;

use coalloc_common::profile::FreeStep;
use coalloc_common::{
    Amount, AvailabilityVector, InvalidField, Reason, Refusal, ResourceId, RmName, Slot, SlotGrid,
    Span, Time, Window,
};
use coalloc_plan::multicost::Knowledge;
use coalloc_protocol::update::Picture;

/// What is believed, and of whom nothing is known.
#[derive(Debug, Clone, Default)]
pub struct BelievedProfiles {
    /// What is free, by RM and resource.
    profiles: BTreeMap<RmName, BTreeMap<ResourceId, Vec<FreeStep>>>,
    /// How old what is known of each RM is.
    ages: BTreeMap<RmName, Span>,
    /// Why nothing is known of others; their resources are as good as taken.
    missing: BTreeMap<RmName, MissingProfiles>,
}

/// Why nothing is known of an RM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingProfiles {
    /// It does not let this coordinator watch.
    pub denied: bool,
    /// One sentence, without its name.
    pub text: String,
}

impl MissingProfiles {
    /// It was not heard, for a reason that may pass.
    #[must_use]
    pub const fn silent(text: String) -> Self {
        Self { denied: false, text }
    }
}

impl BelievedProfiles {
    /// What a picture says of a window. `why` says of each RM that it says nothing of why that is.
    #[must_use]
    pub fn of(
        picture: &Picture,
        window: Window,
        now: Time,
        why: impl Fn(&RmName) -> MissingProfiles,
    ) -> Self {
        let mut believed = Self::default();
        for (rm, known, _) in picture.members() {
            let Some(known) = known else {
                believed.missing.insert(rm.clone(), why(rm));
                continue;
            };
            let steps = known.profiles();
            let steps = steps.map(|(resource, profile)| (resource.clone(), profile.over(window)));
            believed.profiles.insert(rm.clone(), steps.collect());
            believed.ages.insert(rm.clone(), known.age(now));
        }
        believed
    }

    /// What is known of others, too.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.profiles.extend(other.profiles);
        self.ages.extend(other.ages);
        self.missing.extend(other.missing);
        self
    }

    /// Of these nothing is known either.
    #[must_use]
    pub fn without(mut self, missing: impl IntoIterator<Item = (RmName, MissingProfiles)>) -> Self {
        for (rm, why) in missing {
            self.profiles.remove(&rm);
            self.ages.remove(&rm);
            // What it said itself says more.
            self.missing.entry(rm).or_insert(why);
        }
        self
    }

    /// How old what is known of each RM is.
    #[must_use]
    pub const fn ages(&self) -> &BTreeMap<RmName, Span> {
        &self.ages
    }

    /// Nothing is known of anybody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// A refusal on this picture; where RMs are not known it is theirs, and no shortage is proven.
    #[must_use]
    pub fn blame(&self, refusal: Refusal) -> Refusal {
        let Some((first, _)) = self.missing.iter().next() else { return refusal };
        let denied = self.missing.iter().find(|(_, why)| why.denied).map(|(rm, _)| rm);
        let names = self.missing.iter().map(|(rm, why)| format!("{rm} {}", why.text));
        let names: Vec<String> = names.collect();
        let detail = format!("{}; not counted: {}", refusal.detail, names.join("; "));
        let reason = if denied.is_some() { Reason::Denied } else { Reason::Unreachable };
        let rm = Some(denied.unwrap_or(first).clone());
        Refusal { rm, detail, reason, bottleneck: None, ..refusal }
    }

    fn steps(&self, (rm, resource): (&RmName, &ResourceId)) -> &[FreeStep] {
        let steps = self.profiles.get(rm).and_then(|known| known.get(resource));
        steps.map_or(&[], Vec::as_slice)
    }
}

impl Knowledge for BelievedProfiles {
    fn vector(
        &self,
        of: (&RmName, &ResourceId),
        amount: Amount,
        grid: SlotGrid,
        (first, slots): (Slot, usize),
    ) -> Result<AvailabilityVector, InvalidField> {
        let steps = self.steps(of).iter().copied();
        AvailabilityVector::of_profile(steps, amount, grid, first, slots)
            .map_err(|error| InvalidField { field: "options.horizon".to_owned(), ..error })
    }

    fn free_at(&self, of: (&RmName, &ResourceId), at: Time) -> Amount {
        let steps = self.steps(of);
        let next = steps.partition_point(|(start, _)| *start <= at);
        next.checked_sub(1).map_or(Amount::ZERO, |index| steps[index].1)
    }
}
