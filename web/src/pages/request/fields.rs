//! The fields of the form for a request: as they were typed, and what they mean.
//!
//! Texts are read by the readers of the command line's flags ([`written`], [`Instant`]), so a form takes what a flag takes.
//! A row without any text is no row. What is read once can be written again with fixed times, so that a form that is sent
//! twice has the same content twice.
//!
//! Left out: ranges, which the coordinator checks, and what only few requests need (places that are excluded, windows of
//! parts); a file says it.

use std::collections::BTreeMap;

use coalloc_common::{RequestId, ResourceKind, Span, Time, limits};
use coalloc_net::convert::{span_from_wire, span_to_wire, time_from_wire, time_to_wire};
use coalloc_net::written;
use coalloc_proto::notation::{self, Instant, amount};
use coalloc_proto::v1;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How far the latest start is from the earliest if no latest end is said, as on the command line.
const STARTS: Span = Span::from_secs(24 * 3_600);
/// What all names of objectives in the schema begin with.
const OBJECTIVE: &str = "OBJECTIVE_";

/// A requested site, as it was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::pages) struct SiteFields {
    pub(in crate::pages) name: String,
    pub(in crate::pages) cpus: String,
    /// Further kinds: `storage=2TB`.
    pub(in crate::pages) others: String,
    /// The site of the federation at which it must be.
    pub(in crate::pages) place: String,
}

/// A requested link, as it was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::pages) struct LinkFields {
    pub(in crate::pages) from: String,
    pub(in crate::pages) to: String,
    pub(in crate::pages) rate: String,
    pub(in crate::pages) latency: String,
}

/// A request, as it was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::pages) struct RequestFields {
    pub(in crate::pages) sites: Vec<SiteFields>,
    pub(in crate::pages) links: Vec<LinkFields>,
    /// How long the whole is.
    pub(in crate::pages) length: String,
    /// The earliest start.
    pub(in crate::pages) after: String,
    /// The latest end.
    pub(in crate::pages) before: String,
    /// The zone of times that name none.
    pub(in crate::pages) zone: String,
    /// The visitor's own id of the request.
    pub(in crate::pages) name: String,
    pub(in crate::pages) user: String,
    pub(in crate::pages) solver: String,
    /// What matters most, and next.
    pub(in crate::pages) objectives: [String; 2],
    pub(in crate::pages) frames: String,
    /// `yes`: nobody is let in before Provision.
    pub(in crate::pages) manual: String,
}

/// Texts about inputs, by the `id` of the input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::pages) struct Mistakes(pub(in crate::pages) BTreeMap<String, String>);

impl Mistakes {
    pub(in crate::pages) fn of(&self, input: &str) -> Option<&str> {
        self.0.get(input).map(String::as_str)
    }

    /// The value, or else the text about this input.
    pub(in crate::pages) fn take<T>(&mut self, input: &str, read: Result<T, String>) -> Option<T> {
        read.map_err(|text| self.0.insert(input.to_owned(), text)).ok()
    }
}

/// What the fields mean.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::pages) struct ParsedFields {
    pub(in crate::pages) request: v1::CoAllocationRequest,
    pub(in crate::pages) options: v1::PlanOptions,
    /// What local times were read as.
    pub(in crate::pages) readings: Vec<String>,
    /// The rows of the requested sites and links.
    site_rows: Vec<usize>,
    link_rows: Vec<usize>,
}

impl RequestFields {
    /// The fields among these pairs. Other names are nobody's.
    pub(in crate::pages) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut fields = Self::default();
        for (name, value) in pairs {
            let value = value.trim().to_owned();
            match name {
                "site" => fields.sites.push(SiteFields { name: value, ..SiteFields::default() }),
                "from" => fields.links.push(LinkFields { from: value, ..LinkFields::default() }),
                _ => {
                    if let Some(field) = fields.field(name) {
                        *field = value;
                    }
                }
            }
        }
        fields
    }

    /// The field of this name: of a site or a link that of the last row.
    fn field(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "cpus" => &mut self.sites.last_mut()?.cpus,
            "others" => &mut self.sites.last_mut()?.others,
            "place" => &mut self.sites.last_mut()?.place,
            "to" => &mut self.links.last_mut()?.to,
            "rate" => &mut self.links.last_mut()?.rate,
            "latency" => &mut self.links.last_mut()?.latency,
            "for" => &mut self.length,
            "after" => &mut self.after,
            "before" => &mut self.before,
            "zone" => &mut self.zone,
            "name" => &mut self.name,
            "user" => &mut self.user,
            "solver" => &mut self.solver,
            "first" => &mut self.objectives[0],
            "second" => &mut self.objectives[1],
            "frames" => &mut self.frames,
            "manual" => &mut self.manual,
            _ => return None,
        })
    }

    /// The pairs that [`RequestFields::of`] reads; without those that are empty, but in rows.
    pub(in crate::pages) fn pairs(&self) -> Vec<(&'static str, &str)> {
        let mut pairs: Vec<(&'static str, &str)> = Vec::new();
        for site in self.sites.iter().filter(|site| !site.is_blank()) {
            pairs.extend([("site", site.name.as_str()), ("cpus", &site.cpus)]);
            pairs.extend([("others", site.others.as_str()), ("place", &site.place)]);
        }
        for link in self.links.iter().filter(|link| !link.is_blank()) {
            pairs.extend([("from", link.from.as_str()), ("to", &link.to)]);
            pairs.extend([("rate", link.rate.as_str()), ("latency", &link.latency)]);
        }
        let rest = [
            ("for", &self.length),
            ("after", &self.after),
            ("before", &self.before),
            ("zone", &self.zone),
            ("name", &self.name),
            ("user", &self.user),
            ("solver", &self.solver),
            ("first", &self.objectives[0]),
            ("second", &self.objectives[1]),
            ("frames", &self.frames),
            ("manual", &self.manual),
        ];
        pairs.extend(rest.into_iter().map(|(name, value)| (name, value.as_str())));
        pairs.retain(|(name, value)| !value.is_empty() || matches!(*name, "site" | "from"));
        pairs
    }

    /// The address of the form that is filled with these fields.
    pub(in crate::pages) fn address(&self) -> String {
        let start = "/request?";
        let mut query = form_urlencoded::Serializer::for_suffix(start.to_owned(), start.len());
        query.extend_pairs(self.pairs());
        query.finish()
    }

    /// Takes out blank rows if there are more rows than a request may have, and says in a mistake when there are too many
    /// all the same; then only as many are kept as are allowed.
    pub(in crate::pages) fn bounded(&mut self) -> Mistakes {
        let mut mistakes = Mistakes::default();
        let (sites, links) = (limits::REQUEST_SITES_MAX, limits::REQUEST_LINKS_MAX);
        if self.sites.len() > sites {
            self.sites.retain(|row| !row.is_blank());
        }
        if self.links.len() > links {
            self.links.retain(|row| !row.is_blank());
        }
        let counts = [
            ("sites", self.sites.len(), sites, format!("1 to {sites} sites")),
            ("links", self.links.len(), links, format!("at most {links} links")),
        ];
        for (input, count, most, allowed) in counts {
            if count > most {
                let text = format!(
                    "{count} are not allowed; allowed: {allowed}. The first {most} were kept"
                );
                mistakes.0.insert(input.to_owned(), text);
            }
        }
        self.sites.truncate(sites);
        self.links.truncate(links);
        mistakes
    }

    /// What the fields mean at `now`, or what is wrong with them.
    pub(in crate::pages) fn read(&self, now: Time) -> Result<ParsedFields, Mistakes> {
        let mut mistakes = Mistakes::default();
        let mut parsed = ParsedFields::default();
        for (row, site) in self.sites.iter().enumerate().filter(|(_, row)| !row.is_blank()) {
            parsed.request.sites.push(site.read(row, &mut mistakes));
            parsed.site_rows.push(row);
        }
        if parsed.request.sites.is_empty() {
            let most = limits::REQUEST_SITES_MAX;
            let text = format!("none is wanted; needed: 1 to {most} sites, each with its CPUs");
            mistakes.0.insert("sites".to_owned(), text);
        }
        for (row, link) in self.links.iter().enumerate().filter(|(_, row)| !row.is_blank()) {
            parsed.request.links.push(link.read(row, &mut mistakes));
            parsed.link_rows.push(row);
        }
        self.read_times(now, &mut parsed, &mut mistakes);
        self.read_options(&mut parsed, &mut mistakes);
        if !self.name.is_empty() {
            let name = RequestId::parse("name", &self.name);
            mistakes.take("name", name.map_err(|error| error.problem()));
        }
        parsed.request.user.clone_from(&self.user);
        parsed.request.manual_provision = (!self.manual.is_empty()).then_some(true);
        if mistakes.0.is_empty() { Ok(parsed) } else { Err(mistakes) }
    }

    fn read_times(&self, now: Time, parsed: &mut ParsedFields, mistakes: &mut Mistakes) {
        let length = mistakes.take("for", written::length(&self.length));
        parsed.request.duration = length.map(span_to_wire);
        let zone = mistakes.take("zone", zone(&self.zone));
        let mut instant = |input: &str, text: &str| {
            let (time, reading) = mistakes.take(input, instant(text, now, zone.as_ref()?))?;
            parsed.readings.extend(reading);
            Some(time)
        };
        let soonest =
            written::next_full(Span::from_secs(60), now.saturating_add(limits::SOONEST_LEAD));
        let earliest = match self.after.as_str() {
            "" => Some(soonest),
            text => instant("after", text),
        };
        let end = match self.before.as_str() {
            "" => None,
            text => instant("before", text),
        };
        let Some((earliest, length)) = earliest.zip(length) else { return };
        let latest = end.map_or(earliest.saturating_add(STARTS), |end| end.saturating_sub(length));
        if latest < earliest {
            let (end, first) = (latest.saturating_add(length), earliest.saturating_add(length));
            let text = format!(
                "what begins at {earliest} and takes {length} cannot end at {end}; allowed: {first} and later"
            );
            mistakes.0.insert("before".to_owned(), text);
        }
        parsed.request.earliest_start = Some(time_to_wire(earliest));
        parsed.request.latest_start = Some(time_to_wire(latest));
    }

    fn read_options(&self, parsed: &mut ParsedFields, mistakes: &mut Mistakes) {
        parsed.options.solver = Some(self.solver.clone()).filter(|name| !name.is_empty());
        for (input, word) in ["first", "second"].into_iter().zip(&self.objectives) {
            if word.is_empty() {
                continue;
            }
            let name = format!("{OBJECTIVE}{}", word.to_uppercase());
            let known = v1::Objective::from_str_name(&name);
            let problem = || format!("`{word}` is no objective; allowed: those of the list");
            let known = mistakes.take(input, known.ok_or_else(problem));
            parsed.options.objectives.extend(known.map(i32::from));
        }
        if !self.frames.is_empty() {
            let most = limits::FRAMES_MAX;
            let problem =
                |_| format!("`{}` is no whole number; allowed: 1 to {most} starts", self.frames);
            parsed.options.frames = mistakes.take("frames", self.frames.parse().map_err(problem));
        }
    }

    /// The same fields, with the times that they were read as: they mean the same whenever they are read.
    pub(in crate::pages) fn fixed(&self, parsed: &ParsedFields) -> Self {
        self.with_times(&parsed.request)
    }

    fn with_times(&self, request: &v1::CoAllocationRequest) -> Self {
        let length = request.duration.as_ref().and_then(|wire| span_from_wire("", wire).ok());
        let time = |wire: Option<&coalloc_proto::Timestamp>| time_from_wire("", wire?).ok();
        let earliest = time(request.earliest_start.as_ref());
        let latest = time(request.latest_start.as_ref()).or(earliest);
        let mut fields = self.clone();
        if let Some((length, earliest, latest)) =
            length.zip(earliest.zip(latest)).map(|(length, (from, to))| (length, from, to))
        {
            fields.length = written::show_span(length);
            fields.after = earliest.to_string();
            fields.before = latest.saturating_add(length).to_string();
        }
        fields
    }

    /// The fields for this request instead; who asks, and how plans are searched, stay.
    pub(in crate::pages) fn with_request(&self, request: &v1::CoAllocationRequest) -> Self {
        Self {
            sites: request.sites.iter().map(SiteFields::of).collect(),
            links: request.links.iter().map(LinkFields::of).collect(),
            ..self.with_times(request)
        }
    }

    /// The fields for a start at this instant only.
    pub(in crate::pages) fn starting(&self, start: Time) -> Self {
        let length = written::length(&self.length).unwrap_or(Span::ZERO);
        let end = start.saturating_add(length);
        Self { after: start.to_string(), before: end.to_string(), ..self.clone() }
    }
}

impl SiteFields {
    pub(in crate::pages) fn is_blank(&self) -> bool {
        *self == Self::default()
    }

    pub(in crate::pages) fn of(site: &v1::SiteRequest) -> Self {
        let kind = |one: &v1::KindAmount| {
            let known = ResourceKind::parse_other("kind", &one.kind);
            known.map_or_else(
                |_| format!("{}={}", one.kind, one.amount),
                |kind| written::show_kind_and_amount(kind, one.amount),
            )
        };
        Self {
            name: site.name.clone(),
            cpus: site.cpus.to_string(),
            others: site.others.iter().map(kind).collect::<Vec<_>>().join(", "),
            place: site.pinned_to.clone().unwrap_or_default(),
        }
    }

    pub(in crate::pages) fn read(&self, row: usize, mistakes: &mut Mistakes) -> v1::SiteRequest {
        let input = |name: &str| format!("site-{row}-{name}");
        if self.name.is_empty() {
            let text =
                "it is missing; needed: a name for this site, like a, by which links name it";
            mistakes.0.insert(input("name"), text.to_owned());
        }
        let most = limits::CPUS_MAX;
        let problem = |_| match self.cpus.as_str() {
            "" => format!("it is missing; needed: 1 to {most} CPUs"),
            text => format!("`{text}` is no whole number; allowed: 1 to {most} CPUs"),
        };
        let cpus = mistakes.take(&input("cpus"), self.cpus.parse().map_err(problem));
        let others = self.others.split(',').filter(|text| !text.trim().is_empty());
        let others: Result<Vec<_>, _> =
            others.map(|text| written::kind_and_amount(text.trim())).collect();
        let others = mistakes.take(&input("others"), others).unwrap_or_default();
        let amount = |(kind, amount): (ResourceKind, u64)| v1::KindAmount {
            kind: kind.word().to_owned(),
            amount,
            ..Default::default()
        };
        v1::SiteRequest {
            name: self.name.clone(),
            cpus: cpus.unwrap_or_default(),
            pinned_to: Some(self.place.clone()).filter(|place| !place.is_empty()),
            others: others.into_iter().map(amount).collect(),
            ..Default::default()
        }
    }
}

impl LinkFields {
    pub(in crate::pages) fn is_blank(&self) -> bool {
        *self == Self::default()
    }

    pub(in crate::pages) fn of(link: &v1::LinkRequest) -> Self {
        let latency = link.max_latency.as_ref().and_then(|wire| span_from_wire("", wire).ok());
        Self {
            from: link.from.clone(),
            to: link.to.clone(),
            rate: amount::short(link.bandwidth_bps),
            latency: latency.map(written::show_span).unwrap_or_default(),
        }
    }

    pub(in crate::pages) fn read(&self, row: usize, mistakes: &mut Mistakes) -> v1::LinkRequest {
        let input = |name: &str| format!("link-{row}-{name}");
        for (name, end) in [("from", &self.from), ("to", &self.to)] {
            if end.is_empty() {
                let text = "it is missing; needed: the name of a site of this request";
                mistakes.0.insert(input(name), text.to_owned());
            }
        }
        let rate = mistakes.take(&input("rate"), written::rate(&self.rate));
        let latency = Some(&self.latency).filter(|text| !text.is_empty());
        let latency =
            latency.and_then(|text| mistakes.take(&input("latency"), written::span(text)));
        v1::LinkRequest {
            from: self.from.clone(),
            to: self.to.clone(),
            bandwidth_bps: rate.unwrap_or_default(),
            max_latency: latency.map(span_to_wire),
            ..Default::default()
        }
    }
}

impl ParsedFields {
    /// A request of which each part has the row with its own number.
    pub(in crate::pages) fn of_request(request: v1::CoAllocationRequest) -> Self {
        let site_rows = (0..request.sites.len()).collect();
        let link_rows = (0..request.links.len()).collect();
        Self { request, site_rows, link_rows, ..Self::default() }
    }

    /// The input to which a field of the request belongs; `form` if it belongs to none.
    pub(in crate::pages) fn input_of(&self, field: &str) -> String {
        let field = field.strip_prefix("request.").unwrap_or(field);
        let of_row = |list: &str, rows: &[usize]| {
            let (number, part) = field.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
            let row = *rows.get(number.parse::<usize>().ok()?)?;
            let part = part.trim_start_matches('.');
            Some((row, part.split(['.', '[']).next().unwrap_or_default()))
        };
        if let Some((row, part)) = of_row("sites", &self.site_rows) {
            let input = match part {
                "cpus" => "cpus",
                "others" => "others",
                "pinned_to" => "place",
                _ => "name",
            };
            return format!("site-{row}-{input}");
        }
        if let Some((row, part)) = of_row("links", &self.link_rows) {
            let input = match part {
                "to" => "to",
                "bandwidth_bps" => "rate",
                "max_latency" => "latency",
                _ => "from",
            };
            return format!("link-{row}-{input}");
        }
        let input = match field {
            "sites" => "sites",
            "links" => "links",
            "earliest_start" => "after",
            "latest_start" => "before",
            "duration" => "for",
            "user" => "user",
            "request_id" => "name",
            "options.solver" => "solver",
            "options.frames" => "frames",
            "options.objectives[1]" => "second",
            other if other.starts_with("options.objectives") => "first",
            _ => "form",
        };
        input.to_owned()
    }
}

/// The zone of a field; empty is UTC.
pub(in crate::pages) fn zone(text: &str) -> Result<TimeZone, String> {
    if text.is_empty() { Ok(TimeZone::UTC) } else { notation::instant::zone_of(text) }
}

/// The instant of a field, and what it was read as if it is a local time.
pub(in crate::pages) fn instant(
    text: &str,
    now: Time,
    zone: &TimeZone,
) -> Result<(Time, Option<String>), String> {
    let read = Instant::read(text)?;
    // What is so long from now counts from the next full second.
    let now = written::next_full(Span::from_secs(1), now);
    let now = Timestamp::from_microsecond(now.as_us()).map_err(|error| error.to_string())?;
    let (at, local) = read.resolve(now, zone)?;
    let time = Time::from_us(at.as_microsecond());
    let reading = local.map(|local| format!("{text} is {}", notation::instant::show(&local)));
    Ok((time, reading))
}

#[cfg(test)]
mod tests;
