//! An allocation as it was read from the wire, and the sites at which it may be.

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, Span, Time, UserName, limits};
use coalloc_net::convert::{
    choice_from_wire, picked_from_wire, span_from_wire, time_from_wire, user_name,
};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Ticket;
use coalloc_protocol::message::ServerWish;

use super::ladder::StartRange;
use crate::admission::{digest, request_id};
use crate::availability::federation::Snapshot;
use crate::availability::server_sites::{
    ServerSite, names, server_sites, site_of, site_of_servers,
};

/// An allocation that was read from the wire.
#[derive(Debug, Clone)]
pub(super) struct ParsedAllocation {
    pub(super) user: UserName,
    /// How many servers.
    pub(super) servers: u64,
    /// Which of the idle servers, or which servers.
    pub(super) wish: ServerWish,
    /// The starts that are tried.
    pub(super) range: StartRange,
    /// The CPUs of all servers together; 0: any.
    cpus: u64,
    /// The name of the site; empty: any.
    site: String,
}

/// The ticket of an allocation, like that of a reserve call. `own_ids` is the prefix of the ids of this coordinator's
/// reservations.
///
/// # Errors
/// [`InvalidField`] when the id or the user is not a name, or the id begins with `own_ids`.
pub(super) fn ticket(wire: &v1::AllocateRequest, own_ids: &str) -> Result<Ticket, InvalidField> {
    Ok(Ticket {
        request: request_id(&wire.request_id, own_ids)?,
        user: user_name("user", &wire.user)?,
        // The prefix makes it differ from the digest of every co-allocation and task.
        content: format!("allocation-{}", digest(wire)),
    })
}

impl ParsedAllocation {
    /// Reads an allocation. One that names no earliest start begins at `soonest` or later.
    ///
    /// # Errors
    /// [`InvalidField`] for the first field that is wrong.
    pub(super) fn read(wire: &v1::AllocateRequest, soonest: Time) -> Result<Self, InvalidField> {
        let picked = picked_from_wire("picked", &wire.picked)?;
        let servers = match picked.len() {
            0 => check_range("servers", wire.servers, 1..=limits::SERVERS_MAX, "servers")?.into(),
            count if [0, count].contains(&(wire.servers as usize)) => count as u64,
            count => {
                let allowed = format!("{count}, the number of picked servers, or 0");
                return Err(InvalidField::new("servers", wire.servers, allowed));
            }
        };
        let wish = ServerWish {
            choice: choice_from_wire("choice", wire.choice)?,
            picked,
            ..ServerWish::default()
        };
        Ok(Self {
            user: user_name("user", &wire.user)?,
            servers,
            wish,
            range: range(wire, soonest)?,
            cpus: wire.cpus,
            site: wire.site.clone(),
        })
    }

    /// The sites at which it may be, in the order of the topology; there is at least one.
    ///
    /// # Errors
    /// [`InvalidField`] when there is none: the site, a picked server or so many servers do not exist, or the CPUs
    /// contradict the servers.
    pub(super) fn sites(&self, federation: &Snapshot) -> Result<Vec<ServerSite>, InvalidField> {
        let mut sites = server_sites(federation);
        if !self.site.is_empty() {
            sites = vec![site_of(&sites, "site", &self.site)?.clone()];
        }
        if let Some(site) = site_of_servers(federation, &sites, "picked", &self.wish.picked)? {
            sites = vec![site.clone()];
        }
        let Some(greatest) = sites.iter().max_by_key(|site| site.servers).cloned() else {
            let allowed = "servers of by-server sites, of which the federation has none";
            return Err(InvalidField::new("servers", self.servers, allowed));
        };
        sites.retain(|site| site.servers >= self.servers);
        if sites.is_empty() {
            let ServerSite { name, servers, .. } = greatest;
            let allowed = format!("1 to {servers} servers, which {name} has");
            return Err(InvalidField::new("servers", self.servers, allowed));
        }
        let cpus = |site: &ServerSite| self.cpus_at(site);
        if self.cpus == 0 || sites.iter().any(|site| cpus(site) == self.cpus) {
            sites.retain(|site| self.cpus == 0 || cpus(site) == self.cpus);
            return Ok(sites);
        }
        let mut each: Vec<u64> = sites.iter().map(cpus).collect();
        each.sort_unstable();
        each.dedup();
        let each: Vec<String> = each.iter().map(u64::to_string).collect();
        let (count, sites) = (self.servers, names(&sites));
        let allowed = format!("{}, what {count} servers have at {sites}; or 0", each.join(" or "));
        Err(InvalidField::new("cpus", self.cpus, allowed))
    }

    /// The CPUs that it takes at a site.
    pub(super) const fn cpus_at(&self, site: &ServerSite) -> u64 {
        self.servers.saturating_mul(site.cpus_each)
    }
}

/// The starts that are tried. The latest is the end of time if only the horizons limit it.
fn range(wire: &v1::AllocateRequest, soonest: Time) -> Result<StartRange, InvalidField> {
    let span = |field: &str, wire: Option<&coalloc_proto::Duration>, least: Span, most: Span| {
        let allowed = || format!("{least} to {most}");
        let nothing = || InvalidField::missing(field, allowed());
        let span = span_from_wire(field, wire.ok_or_else(nothing)?)?;
        let is_allowed = (least..=most).contains(&span);
        is_allowed.then_some(span).ok_or_else(|| InvalidField::new(field, span, allowed()))
    };
    let instant = |field: &str, wire: &Option<coalloc_proto::Timestamp>| {
        wire.as_ref().map(|wire| time_from_wire(field, wire)).transpose()
    };
    let (least, most) = (limits::DURATION_MIN, limits::DURATION_MAX);
    let length = span("duration", wire.duration.as_ref(), least, most)?;
    let earliest = instant("earliest_start", &wire.earliest_start)?.unwrap_or(soonest);
    let latest = instant("latest_start", &wire.latest_start)?;
    if let Some(latest) = latest.filter(|latest| *latest < earliest) {
        let allowed = format!("{earliest}, the earliest start, or later");
        return Err(InvalidField::new("latest_start", latest, allowed));
    }
    let most = limits::ALLOCATION_STEP_MAX;
    let step = wire.step.as_ref().map(|step| span("step", Some(step), Span::from_secs(1), most));
    let step = step.transpose()?;
    let most = limits::ALLOCATION_STARTS_MAX;
    let attempts = wire.attempts.unwrap_or(most);
    check_range("attempts", attempts, 1..=most, "starts")?;
    if let (Some(step), Some(latest), true) = (step, latest, wire.attempts.is_some()) {
        let rungs = 1 + latest.since(earliest).as_us() / step.as_us();
        if i64::from(attempts) > rungs {
            let allowed = format!("1 to {rungs}: later starts are after latest_start");
            return Err(InvalidField::new("attempts", attempts, allowed));
        }
    }
    // Who picks servers wants to know about that start, unless something says that later ones will do.
    let is_for_one_start =
        !wire.picked.is_empty() && wire.step.is_none() && wire.attempts.is_none();
    let latest = latest.unwrap_or(if is_for_one_start { earliest } else { Time::MAX });
    Ok(StartRange { earliest, latest, step, length, attempts: attempts.into() })
}

#[cfg(test)]
mod tests {
    use coalloc_net::convert::{span_to_wire, time_to_wire};

    use super::*;

    const SOONEST: Time = Time::from_us(1_000_000_000_000_000);

    fn later(seconds: i64) -> Time {
        SOONEST.saturating_add(Span::from_secs(seconds))
    }

    fn request() -> v1::AllocateRequest {
        v1::AllocateRequest {
            servers: 2,
            duration: Some(span_to_wire(Span::from_secs(60))),
            ..v1::AllocateRequest::default()
        }
    }

    fn wrong(change: impl FnOnce(&mut v1::AllocateRequest)) -> (String, String) {
        let mut wire = request();
        change(&mut wire);
        let error = ParsedAllocation::read(&wire, SOONEST).unwrap_err();
        (error.field, error.value)
    }

    #[test]
    fn bad_input_names_field_and_value() {
        let pair = |field: &str, value: &str| (field.to_owned(), value.to_owned());
        let seconds = |s| Some(span_to_wire(Span::from_secs(s)));
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(wrong(|wire| wire.servers = 0), pair("servers", "0"));
        assert_eq!(wrong(|wire| wire.servers = 10_001), pair("servers", "10001"));
        assert_eq!(wrong(|wire| wire.duration = None), pair("duration", ""));
        assert_eq!(wrong(|wire| wire.duration = seconds(0)), pair("duration", "0 s"));
        assert_eq!(wrong(|wire| wire.duration = seconds(367 * 86_400)), pair("duration", "367 d"));
        assert_eq!(wrong(|wire| wire.step = seconds(0)), pair("step", "0 s"));
        assert_eq!(wrong(|wire| wire.step = seconds(86_401)), pair("step", "1 d 1 s"));
        assert_eq!(wrong(|wire| wire.attempts = Some(0)), pair("attempts", "0"));
        assert_eq!(wrong(|wire| wire.choice = 9), pair("choice", "9"));
        assert_eq!(wrong(|wire| wire.user = "a b".to_owned()).0, "user");
        assert_eq!(
            wrong(|wire| wire.latest_start = Some(time_to_wire(later(-1)))).0,
            "latest_start"
        );
        assert_eq!(wrong(|wire| wire.picked = names(&["A/1"])), pair("servers", "2"));
        assert_eq!(wrong(|wire| wire.picked = names(&["A/1", "A/1"])), pair("picked[1]", "A/1"));
        let past = |wire: &mut v1::AllocateRequest, attempts| {
            wire.step = seconds(900);
            wire.latest_start = Some(time_to_wire(later(1_800)));
            wire.attempts = Some(attempts);
        };
        assert_eq!(wrong(|wire| past(wire, 4)), pair("attempts", "4"));
        let mut fits = request();
        past(&mut fits, 3);
        assert!(ParsedAllocation::read(&fits, SOONEST).is_ok());
    }

    #[test]
    fn who_picks_servers_wants_one_start_unless_something_allows_more() {
        let read = |wire: &v1::AllocateRequest| {
            let read = ParsedAllocation::read(wire, SOONEST).unwrap();
            (read.range.latest, read.servers)
        };
        assert_eq!(read(&request()), (Time::MAX, 2));
        let picked = vec!["A/1".to_owned(), "A/2".to_owned()];
        let picked = v1::AllocateRequest { picked, ..request() };
        assert_eq!(read(&picked), (SOONEST, 2));
        let more = v1::AllocateRequest { servers: 0, attempts: Some(3), ..picked.clone() };
        assert_eq!(read(&more), (Time::MAX, 2));
        let latest_start = Some(time_to_wire(later(60)));
        assert_eq!(read(&v1::AllocateRequest { latest_start, ..picked }), (later(60), 2));
    }
}
