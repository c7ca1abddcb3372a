//! The parts of a request in time: which windows they have, and what is wanted in each of them.
//!
//! A part is one kind of resource at one requested site, or one requested link. The instants at which parts begin
//! and end cut the duration of the request into periods, and within a period the same amounts are wanted
//! throughout.

use std::collections::BTreeSet;

use super::CoAllocation;
use crate::amount::Amount;
use crate::invalid::InvalidField;
use crate::limits;
use crate::part_window::PartWindow;
use crate::time::Span;

impl CoAllocation {
    /// Whether some part has a window of its own.
    #[must_use]
    pub fn has_part_windows(&self) -> bool {
        self.sites.iter().any(|site| !site.windows.is_empty())
            || self.links.iter().any(|link| link.window.is_some())
    }

    /// The windows that parts have of their own.
    fn own_windows(&self) -> impl Iterator<Item = PartWindow> + '_ {
        let sites = self.sites.iter().flat_map(|site| site.windows.values().copied());
        sites.chain(self.links.iter().filter_map(|link| link.window))
    }

    /// The periods, in order. A request whose parts have no windows of their own has one, which is the whole of it
    /// and therefore `None`.
    #[must_use]
    pub fn periods(&self) -> Vec<Option<PartWindow>> {
        let duration = self.timing.duration;
        let mut cuts = BTreeSet::from([Span::ZERO, duration]);
        cuts.extend(self.own_windows().flat_map(|window| [window.offset(), window.end()]));
        let starts = cuts.iter().zip(cuts.iter().skip(1));
        starts
            .map(|(start, end)| PartWindow::new(*start, end.saturating_sub(*start), duration))
            .collect()
    }

    /// The windows, besides the whole duration, in which a planner has to know what is free: those of all parts, and
    /// all periods. Empty unless some part has a window of its own.
    #[must_use]
    pub fn part_windows(&self) -> Vec<PartWindow> {
        if !self.has_part_windows() {
            return Vec::new();
        }
        let all: BTreeSet<PartWindow> =
            self.own_windows().chain(self.periods().into_iter().flatten()).collect();
        all.into_iter().collect()
    }

    /// What is wanted throughout a window, as a request without windows of its own. All sites stay, so that the
    /// indices stay; a site of which nothing is wanted throughout it wants nothing.
    #[must_use]
    pub fn throughout(&self, window: PartWindow) -> Self {
        let mut part = self.clone();
        for site in &mut part.sites {
            for (kind, own) in std::mem::take(&mut site.windows) {
                if !own.covers(window) {
                    site.set_amount(kind, Amount::ZERO);
                }
            }
        }
        part.links.retain(|link| link.is_wanted_in(Some(window)));
        part.links.iter_mut().for_each(|link| link.window = None);
        part
    }

    pub(super) fn check_windows(&self) -> Result<(), InvalidField> {
        let duration = self.timing.duration;
        let check = |field: &str, window: PartWindow| {
            let (offset, length) = (Some(window.offset()), Some(window.length()));
            PartWindow::parse(field, offset, length, duration).map(|_| ())
        };
        for (index, site) in self.sites.iter().enumerate() {
            for (kind, window) in &site.windows {
                check(&format!("sites[{index}].{}.", kind.word()), *window)?;
            }
        }
        for (index, link) in self.links.iter().enumerate() {
            if let Some(window) = link.window {
                check(&format!("links[{index}]."), window)?;
            }
        }
        let periods = self.periods().len();
        if periods > limits::REQUEST_PERIODS_MAX {
            let value = format!("{} instants at which parts begin or end", periods + 1);
            let allowed = format!(
                "at most {}, the start and the end of the request included",
                limits::REQUEST_PERIODS_MAX + 1
            );
            return Err(InvalidField::new("sites and links", value, allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::amount::{BitsPerSecond, Cpus};
    use crate::id::SiteName;
    use crate::kind::ResourceKind;
    use crate::request::{LinkDemand, SiteDemand, Timing};
    use crate::time::Time;

    const HOUR: i64 = 3_600;

    fn hours(offset: i64, length: i64) -> Option<PartWindow> {
        let span = |hours| Span::from_secs(hours * HOUR);
        PartWindow::new(span(offset), span(length), span(15))
    }

    /// Stage in over a link from 9 to 10, compute from 10 to 12, storage from 9 to 24.
    fn stage_in() -> CoAllocation {
        let site = |name: &str| SiteDemand {
            name: SiteName::composed(name),
            cpus: Cpus(4),
            others: BTreeMap::new(),
            pinned: None,
            excluded: BTreeSet::new(),
            windows: BTreeMap::new(),
        };
        let mut run = site("run");
        run.others.insert(ResourceKind::Storage, Amount(500));
        run.windows.extend(hours(1, 2).map(|window| (ResourceKind::Cpus, window)));
        let mut data = site("data");
        data.windows.extend(hours(0, 1).map(|window| (ResourceKind::Cpus, window)));
        let bandwidth = BitsPerSecond(1_000);
        let window = hours(0, 1);
        CoAllocation {
            sites: vec![data, run],
            links: vec![LinkDemand { from: 0, to: 1, bandwidth, latency_max: None, window }],
            timing: Timing {
                earliest_start: Time::from_us(9 * HOUR * 1_000_000),
                latest_start: Time::from_us(9 * HOUR * 1_000_000),
                duration: Span::from_secs(15 * HOUR),
            },
        }
    }

    #[test]
    fn parts_cut_the_duration_into_periods() {
        let request = stage_in();
        assert_eq!(request.check(), Ok(()));
        assert!(request.has_part_windows());
        assert_eq!(request.periods(), [hours(0, 1), hours(1, 2), hours(3, 12)]);
        let windows: Vec<_> = request.part_windows().into_iter().map(Some).collect();
        assert_eq!(windows, request.periods(), "each part has a period of its own here");
        let mut longer = request;
        longer.links[0].window = hours(0, 3);
        let windows: Vec<_> = longer.part_windows().into_iter().map(Some).collect();
        assert_eq!(windows, [hours(0, 1), hours(0, 3), hours(1, 2), hours(3, 12)]);
    }

    #[test]
    fn without_windows_there_is_one_period_which_is_the_whole() {
        let mut request = stage_in();
        request.sites.iter_mut().for_each(|site| site.windows.clear());
        request.links[0].window = None;
        assert!(!request.has_part_windows());
        assert_eq!((request.periods(), request.part_windows()), (vec![None], vec![]));
    }

    #[test]
    fn what_is_wanted_throughout_a_window_is_a_request_by_itself() {
        let request = stage_in();
        let of = |window: Option<PartWindow>| {
            let part = request.throughout(window.unwrap());
            assert!(!part.has_part_windows());
            let amounts = |site: &SiteDemand| (site.cpus.0, site.amount(ResourceKind::Storage).0);
            let sites: Vec<_> = part.sites.iter().map(amounts).collect();
            (sites, part.links.len())
        };
        assert_eq!(of(hours(0, 1)), (vec![(4, 0), (0, 500)], 1));
        assert_eq!(of(hours(1, 2)), (vec![(0, 0), (4, 500)], 0));
        assert_eq!(of(hours(0, 3)), (vec![(0, 0), (0, 500)], 0), "no other part is so long");
    }

    #[test]
    fn windows_are_checked_against_the_duration_and_counted() {
        let mut outside = stage_in();
        outside.timing.duration = Span::from_secs(2 * HOUR);
        assert_eq!(outside.check().unwrap_err().field, "sites[1].cpus.length");
        let mut many = stage_in();
        many.timing.duration = Span::from_secs(400 * HOUR);
        let site = many.sites[0].clone();
        many.sites = (0..32)
            .map(|n| {
                let mut site = SiteDemand {
                    name: SiteName::composed(format!("s{n}")),
                    windows: BTreeMap::new(),
                    ..site.clone()
                };
                site.windows.extend(hours(n, 1).map(|window| (ResourceKind::Cpus, window)));
                site
            })
            .collect();
        many.links.clear();
        let error = many.check().unwrap_err();
        assert_eq!(error.field, "sites and links");
        assert!(error.value.contains("34") && error.allowed.contains("17"), "{error}");
        many.sites.truncate(15);
        assert_eq!(many.check(), Ok(()));
    }
}
