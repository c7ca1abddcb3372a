//! A co-allocation as the user requests it: sites, links between them, and when.
//!
//! It is `G_r = (V_r, E_r)` of Takefusa 2010, section 3.2, with EST, LST and D of section 3.1. What a site or a
//! link wants may have a window of its own within D ([`PartWindow`], ADR 40), which the paper does not have. Left
//! out: the conversion from the wire with its range checks, which is in `net::convert`.

use std::collections::{BTreeMap, BTreeSet};

use crate::amount::{Amount, BitsPerSecond, Cpus};
use crate::id::{SiteName, VertexName};
use crate::invalid::InvalidField;
use crate::kind::ResourceKind;
use crate::limits;
use crate::part_window::PartWindow;
use crate::time::{Span, Time, Window};

mod parts;

/// One requested site (`rc_j`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteDemand {
    /// The name of the site in the request, unique in the request.
    pub name: SiteName,
    /// CPUs wanted, 1 to [`limits::CPUS_MAX`].
    pub cpus: Cpus,
    /// What else is wanted at the same site, by kind: 1 to [`ResourceKind::most`].
    pub others: BTreeMap<ResourceKind, Amount>,
    /// The only vertex on which the site may be placed, if the user names one.
    pub pinned: Option<VertexName>,
    /// Vertices on which the site must not be placed.
    pub excluded: BTreeSet<VertexName>,
    /// When the kinds are wanted that are not wanted for the whole duration of the request.
    pub windows: BTreeMap<ResourceKind, PartWindow>,
}

impl SiteDemand {
    /// What is wanted, by kind: the CPUs first, then the further kinds in their order.
    pub fn amounts(&self) -> impl Iterator<Item = (ResourceKind, Amount)> + '_ {
        let others = self.others.iter().map(|(kind, amount)| (*kind, *amount));
        std::iter::once((ResourceKind::Cpus, self.cpus.into())).chain(others)
    }

    /// What is wanted of one kind; zero if nothing.
    #[must_use]
    pub fn amount(&self, kind: ResourceKind) -> Amount {
        if kind == ResourceKind::Cpus {
            return self.cpus.into();
        }
        self.others.get(&kind).copied().unwrap_or(Amount::ZERO)
    }

    /// When a kind is wanted; `None`: for the whole duration of the request.
    #[must_use]
    pub fn window(&self, kind: ResourceKind) -> Option<PartWindow> {
        self.windows.get(&kind).copied()
    }

    /// Changes what is wanted of one kind. Nothing of a further kind is no demand for it.
    pub fn set_amount(&mut self, kind: ResourceKind, amount: Amount) {
        match (kind, amount) {
            (ResourceKind::Cpus, _) => self.cpus = Cpus(amount.0),
            (_, Amount::ZERO) => {
                self.others.remove(&kind);
                self.windows.remove(&kind);
            }
            _ => drop(self.others.insert(kind, amount)),
        }
    }

    /// Whether the other demand wants the same amounts of everything, in the same windows.
    #[must_use]
    pub fn wants_as(&self, other: &Self) -> bool {
        self.cpus == other.cpus && self.others == other.others && self.windows == other.windows
    }

    /// Whether nothing at all is wanted: the demand only says where a link ends.
    #[must_use]
    pub fn wants_nothing(&self) -> bool {
        self.cpus.0 == 0 && self.others.is_empty()
    }
}

/// One requested link (`rb_l`, `l = (o, p)`). It cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkDemand {
    /// Index in [`CoAllocation::sites`] of the site where the link starts.
    pub from: usize,
    /// Index of the site where the link ends; it is another site.
    pub to: usize,
    /// Rate wanted, 1 to [`limits::BANDWIDTH_MAX_BPS`].
    pub bandwidth: BitsPerSecond,
    /// Largest allowed sum of the latencies of the edges that the link takes.
    pub latency_max: Option<Span>,
    /// When the link is wanted; `None`: for the whole duration of the request.
    pub window: Option<PartWindow>,
}

impl LinkDemand {
    /// Whether the link is wanted throughout a period; `None` is the whole duration of a request.
    #[must_use]
    pub fn is_wanted_in(&self, period: Option<PartWindow>) -> bool {
        match (self.window, period) {
            (None, _) => true,
            (Some(window), Some(period)) => window.covers(period),
            (Some(_), None) => false,
        }
    }
}

/// When the request is to run: a window of `duration` whose start lies in
/// `[earliest_start, latest_start]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The earliest start (EST).
    pub earliest_start: Time,
    /// The latest start (LST); not before EST.
    pub latest_start: Time,
    /// The duration (D), [`limits::DURATION_MIN`] to [`limits::DURATION_MAX`].
    pub duration: Span,
}

impl Timing {
    /// The frames of Takefusa 2010, stage 2i: up to `count` windows whose starts divide
    /// `[EST, LST]` evenly, both ends included, earliest first, without duplicates.
    #[must_use]
    pub fn frames(&self, count: u32) -> Vec<Window> {
        let slack = i128::from(self.latest_start.since(self.earliest_start).as_us());
        let steps = i128::from(count.max(1)) - 1;
        let mut frames = Vec::with_capacity(count as usize);
        for step in 0..=steps {
            let offset = if steps == 0 { 0 } else { slack * step / steps };
            // At most the slack, which is an i64.
            let start = self.earliest_start.saturating_add(Span::from_us(offset as i64));
            if let Some(window) = Window::starting(start, self.duration)
                && frames.last() != Some(&window)
            {
                frames.push(window);
            }
        }
        frames
    }
}

/// A co-allocation request. Its fields are public so that planners and tests can read them.
/// Admission calls [`CoAllocation::check`] before anything else uses the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoAllocation {
    /// The requested sites, 1 to [`limits::REQUEST_SITES_MAX`].
    pub sites: Vec<SiteDemand>,
    /// The requested links between them, at most [`limits::REQUEST_LINKS_MAX`]; no ordered pair
    /// twice.
    pub links: Vec<LinkDemand>,
    /// When the request is to run.
    pub timing: Timing,
}

impl CoAllocation {
    /// Checks every number and every reference.
    ///
    /// # Errors
    /// [`InvalidField`] for the first field that is wrong, in the order sites, links, timing, windows of parts.
    pub fn check(&self) -> Result<(), InvalidField> {
        self.check_sites()?;
        self.check_links()?;
        self.check_timing()?;
        self.check_windows()
    }

    fn check_sites(&self) -> Result<(), InvalidField> {
        let allowed = format!("1 to {} sites", limits::REQUEST_SITES_MAX);
        if self.sites.is_empty() || self.sites.len() > limits::REQUEST_SITES_MAX {
            return Err(InvalidField::new("sites", self.sites.len(), allowed));
        }
        let mut names = BTreeMap::new();
        let mut pins = BTreeMap::new();
        for (index, site) in self.sites.iter().enumerate() {
            let field = |name: &str| format!("sites[{index}].{name}");
            if let Some(first) = names.insert(&site.name, index) {
                let allowed = format!("a name that no other site has; sites[{first}] has it");
                return Err(InvalidField::new(field("name"), &site.name, allowed));
            }
            check_amount(&field("cpus"), site.cpus.0, limits::CPUS_MAX, "CPUs")?;
            for (kind, amount) in &site.others {
                kind.parse_amount(&field(&format!("others.{}", kind.word())), amount.0)?;
            }
            let Some(pin) = &site.pinned else { continue };
            if site.excluded.contains(pin) {
                return Err(InvalidField::new(
                    field("pinned_to"),
                    pin,
                    "a site that is not also excluded",
                ));
            }
            if let Some(first) = pins.insert(pin, index) {
                let allowed = format!("a site to which no other is pinned; sites[{first}] is");
                return Err(InvalidField::new(field("pinned_to"), pin, allowed));
            }
        }
        Ok(())
    }

    fn check_links(&self) -> Result<(), InvalidField> {
        if self.links.len() > limits::REQUEST_LINKS_MAX {
            let allowed = format!("at most {} links", limits::REQUEST_LINKS_MAX);
            return Err(InvalidField::new("links", self.links.len(), allowed));
        }
        let mut pairs = BTreeMap::new();
        for (index, link) in self.links.iter().enumerate() {
            let field = |name: &str| format!("links[{index}].{name}");
            for (name, end) in [("from", link.from), ("to", link.to)] {
                if end >= self.sites.len() {
                    return Err(InvalidField::new(field(name), end, "a site of this request"));
                }
            }
            if link.from == link.to {
                let name = &self.sites[link.to].name;
                return Err(InvalidField::new(field("to"), name, "a site other than `from`"));
            }
            if let Some(first) = pairs.insert((link.from, link.to), index) {
                let value =
                    format!("{} to {}", self.sites[link.from].name, self.sites[link.to].name);
                let allowed = format!("each pair once; links[{first}] already has this pair");
                return Err(InvalidField::new(format!("links[{index}]"), value, allowed));
            }
            let max = limits::BANDWIDTH_MAX_BPS;
            check_amount(&field("bandwidth_bps"), link.bandwidth.0, max, "bit/s")?;
            if let Some(latency) = link.latency_max
                && !(Span::ZERO..=limits::LATENCY_MAX).contains(&latency)
            {
                let allowed = format!("0 to {}", limits::LATENCY_MAX);
                return Err(InvalidField::new(field("max_latency"), latency, allowed));
            }
        }
        Ok(())
    }

    fn check_timing(&self) -> Result<(), InvalidField> {
        let Timing { earliest_start, latest_start, duration } = self.timing;
        if !(limits::DURATION_MIN..=limits::DURATION_MAX).contains(&duration) {
            let allowed = format!("{} to {}", limits::DURATION_MIN, limits::DURATION_MAX);
            return Err(InvalidField::new("duration", duration, allowed));
        }
        Window::parse("earliest_start", earliest_start, earliest_start.saturating_add(duration))?;
        if latest_start < earliest_start {
            let allowed = format!("not before earliest_start, {earliest_start}");
            return Err(InvalidField::new("latest_start", latest_start, allowed));
        }
        Window::parse("latest_start", latest_start, latest_start.saturating_add(duration))?;
        if latest_start.since(earliest_start) > limits::DURATION_MAX {
            let allowed = format!("at most {} after earliest_start", limits::DURATION_MAX);
            return Err(InvalidField::new("latest_start", latest_start, allowed));
        }
        Ok(())
    }
}

fn check_amount(field: &str, value: u64, max: u64, unit: &str) -> Result<(), InvalidField> {
    crate::invalid::check_range(field, value, 1..=max, unit).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(est_s: i64, lst_s: i64, d_s: i64) -> Timing {
        Timing {
            earliest_start: Time::from_us(est_s * 1_000_000),
            latest_start: Time::from_us(lst_s * 1_000_000),
            duration: Span::from_secs(d_s),
        }
    }

    #[test]
    fn frames_ladder_from_est_to_lst() {
        let frames = timing(0, 90, 30).frames(10);
        let starts: Vec<i64> =
            frames.iter().map(|window| window.start().as_us() / 1_000_000).collect();
        assert_eq!(starts, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        assert!(frames.iter().all(|window| window.length() == Span::from_secs(30)));
        assert_eq!(timing(5, 5, 30).frames(10).len(), 1, "an exact time is one frame");
        assert_eq!(timing(0, 90, 30).frames(1).len(), 1);
    }

    fn two_sites() -> CoAllocation {
        let site = |name: &str| SiteDemand {
            name: SiteName::composed(name),
            cpus: Cpus(4),
            others: BTreeMap::new(),
            pinned: None,
            excluded: BTreeSet::new(),
            windows: BTreeMap::new(),
        };
        let bandwidth = BitsPerSecond(1_000_000_000);
        CoAllocation {
            sites: vec![site("a"), site("b")],
            links: vec![LinkDemand { from: 0, to: 1, bandwidth, latency_max: None, window: None }],
            timing: timing(0, 90, 30),
        }
    }

    #[test]
    fn bad_requests_are_refused_with_field_value_and_range() {
        type Spoil = fn(&mut CoAllocation);
        let cases: [(&str, Spoil); 11] = [
            ("sites", |r| r.sites.clear()),
            ("sites[1].name", |r| r.sites[1].name = r.sites[0].name.clone()),
            ("sites[0].cpus", |r| r.sites[0].cpus = Cpus(0)),
            ("sites[1].cpus", |r| r.sites[1].cpus = Cpus(u64::MAX)),
            ("sites[1].others.storage", |r| {
                r.sites[1].others.insert(ResourceKind::Storage, Amount(0));
            }),
            ("links[0].to", |r| r.links[0].to = 0),
            ("links[0].from", |r| r.links[0].from = 9),
            ("links[1]", |r| r.links.push(r.links[0])),
            ("links[0].bandwidth_bps", |r| r.links[0].bandwidth = BitsPerSecond(0)),
            ("duration", |r| r.timing.duration = Span::ZERO),
            ("latest_start", |r| r.timing.latest_start = Time::from_us(-1)),
        ];
        assert_eq!(two_sites().check(), Ok(()));
        for (field, spoil) in cases {
            let mut request = two_sites();
            spoil(&mut request);
            let error = request.check().expect_err(field);
            assert_eq!(error.field, field, "{error}");
            assert!(!error.allowed.is_empty());
        }
    }
}
