//! What a running daemon writes to its log, and the calls by which operators change that without a restart.
//!
//! * [`parse`]: the notation of `COALLOC_LOG`. A word that is no level and no part of the program is a mistake here; the library
//!   would take it for the name of a part, and write nothing of all others.
//! * [`FilterHistory`]: the filter at the start, the one that lasts, and the one that ends by itself. Pure.
//! * [`LogFilterService`]: the calls. What they change is the log of the whole process.
//!
//! Left out: how events are written ([`crate::telemetry`]). Source: docs/adr/0057-log-levels.md.

use std::str::FromStr as _;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use coalloc_common::suggest::did_you_mean;
use coalloc_common::{InvalidField, Span, limits};
use coalloc_proto::v1;
use coalloc_protocol::Causer;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

use crate::authorization::Caller;
use crate::convert::{span_from_wire, span_to_wire};
use crate::status;

/// The parts of the program that have levels of their own: its crates, and the libraries in it that write to the log.
const PARTS: [&str; 20] = [
    "axum",
    "coalloc_cli",
    "coalloc_common",
    "coalloc_crm",
    "coalloc_etcd",
    "coalloc_grc",
    "coalloc_ledger",
    "coalloc_net",
    "coalloc_nrm",
    "coalloc_plan",
    "coalloc_proto",
    "coalloc_protocol",
    "coalloc_rm",
    "coalloc_web",
    "h2",
    "hyper",
    "hyper_util",
    "rustls",
    "tonic",
    "tower",
];

/// Reads a filter, as `COALLOC_LOG` or a call has it.
///
/// # Errors
/// [`InvalidField`] with the part of the text that is wrong.
pub fn parse(field: &str, text: &str) -> Result<Targets, InvalidField> {
    let allowed = "a level (off, error, warn, info, debug, trace), or levels of parts, like `info,coalloc_grc=debug`";
    let bad = |wrong: &str, more: &str| {
        InvalidField::new(field, InvalidField::quoted(wrong), format!("{allowed}{more}"))
    };
    if text.trim().is_empty() {
        return Err(InvalidField::missing(field, allowed));
    }
    let most = limits::LOG_FILTER_LEN_MAX;
    if text.chars().count() > most {
        let count = format!("{} characters", text.chars().count());
        return Err(InvalidField::new(field, count, format!("1 to {most} characters")));
    }
    for directive in text.split(',').map(str::trim) {
        let (part, level) = match directive.split_once('=') {
            Some((part, level)) => (part, Some(level)),
            None => (directive, None),
        };
        if level.is_none() && LevelFilter::from_str(part).is_ok() {
            continue;
        }
        let root = part.split("::").next().unwrap_or(part);
        if !PARTS.contains(&root) {
            let levels = ["off", "error", "warn", "info", "debug", "trace"];
            // A word without a level may be a level or a part.
            let levels = levels.into_iter().filter(|_| level.is_none());
            let near = did_you_mean(root, levels.chain(PARTS));
            let parts = format!("; parts: {}", PARTS.join(", "));
            return Err(bad(directive, if near.is_empty() { &parts } else { &near }));
        }
        if level.is_some_and(|level| LevelFilter::from_str(level).is_err()) {
            return Err(bad(directive, ""));
        }
    }
    text.parse().map_err(|_| bad(text, ""))
}

/// Which filter was in force, is, and will be.
#[derive(Debug, Clone)]
pub struct FilterHistory {
    at_start: Targets,
    /// Until somebody changes it.
    lasting: Targets,
    /// In place of the lasting one, until it ends by itself.
    passing: Option<(Targets, Instant)>,
    /// How often it was changed: the end of a filter that was changed meanwhile is nobody's.
    changes: u64,
}

impl FilterHistory {
    /// That of a daemon which starts with a filter.
    #[must_use]
    pub const fn new(at_start: Targets, lasting: Targets) -> Self {
        Self { at_start, lasting, passing: None, changes: 0 }
    }

    /// The filter in force.
    #[must_use]
    pub fn in_force(&self) -> &Targets {
        self.passing.as_ref().map_or(&self.lasting, |(filter, _)| filter)
    }

    /// Puts a filter in force: until an instant, or for good. Returns the number of this change, for [`FilterHistory::end`].
    pub fn change(&mut self, filter: Targets, until: Option<Instant>) -> u64 {
        match until {
            Some(until) => self.passing = Some((filter, until)),
            None => (self.lasting, self.passing) = (filter, None),
        }
        self.changes += 1;
        self.changes
    }

    /// Ends the filter of a change. Returns false if it was changed since.
    pub fn end(&mut self, change: u64) -> bool {
        let is_last = self.changes == change;
        if is_last {
            self.passing = None;
        }
        is_last
    }

    fn to_wire(&self, now: Instant) -> v1::LogFilter {
        let left = self.passing.as_ref().map(|(_, until)| until.saturating_duration_since(now));
        let ends_in = left.map(|left| Span::from_us(i64::try_from(left.as_micros()).unwrap_or(0)));
        v1::LogFilter {
            filter: self.in_force().to_string(),
            ends_in: ends_in.map(span_to_wire),
            afterwards: ends_in.map(|_| self.lasting.to_string()).unwrap_or_default(),
            at_start: self.at_start.to_string(),
        }
    }
}

/// Puts a filter in force for the whole process; false if the log is gone.
type Apply = Box<dyn Fn(Targets) -> bool + Send + Sync>;

/// The log of this process.
struct ProcessLog {
    history: Mutex<FilterHistory>,
    apply: Apply,
}

static LOG: OnceLock<ProcessLog> = OnceLock::new();

/// Says how the filter of this process is changed. The first one who says it is heard.
pub(crate) fn install(at_start: Targets, apply: Apply) {
    let history = Mutex::new(FilterHistory::new(at_start.clone(), at_start));
    // Whoever started the log before goes on with it.
    let _ = LOG.set(ProcessLog { history, apply });
}

impl ProcessLog {
    fn history(&self) -> MutexGuard<'_, FilterHistory> {
        // A history is whole at every moment, also when whoever held it has panicked.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, history: &FilterHistory) -> Result<(), Status> {
        match (self.apply)(history.in_force().clone()) {
            true => Ok(()),
            false => Err(unchangeable()),
        }
    }
}

fn unchangeable() -> Status {
    let text = "the log of this process cannot be changed; set COALLOC_LOG and restart the daemon";
    status::precondition("LOG", "filter", text)
}

/// The handlers of the Logging service.
#[derive(Debug, Clone, Copy)]
pub struct LogFilterService;

#[tonic::async_trait]
impl v1::logging_server::Logging for LogFilterService {
    async fn get_log_filter(
        &self,
        request: Request<v1::GetLogFilterRequest>,
    ) -> Result<Response<v1::GetLogFilterResponse>, Status> {
        // Fails when the request has not passed the authorization.
        Caller::of_request(&request)?;
        let log = LOG.get().ok_or_else(unchangeable)?;
        let filter = Some(log.history().to_wire(Instant::now()));
        Ok(Response::new(v1::GetLogFilterResponse { filter }))
    }

    async fn set_log_filter(
        &self,
        request: Request<v1::SetLogFilterRequest>,
    ) -> Result<Response<v1::SetLogFilterResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let message = request.into_inner();
        let lasts = lasts(&message).map_err(|error| status::invalid(&error))?;
        let asked = asked(&message).map_err(|error| status::invalid(&error))?;
        let log = LOG.get().ok_or_else(unchangeable)?;
        let by = match caller.causer() {
            Causer::Peer(peer) => peer.peer.clone(),
            _ => "unproven".to_owned(),
        };
        let now = Instant::now();
        let (wire, change) = {
            let mut history = log.history();
            let filter = asked.unwrap_or_else(|| history.at_start.clone());
            // Before and after: one of the two filters lets it through, unless both write next to nothing.
            tracing::info!(%filter, %by, "an operator changes what is logged");
            let change = history.change(filter, lasts.map(|lasts| now + lasts.to_std()));
            log.apply(&history)?;
            tracing::info!(filter = %history.in_force(), %by, "what is logged was changed");
            (history.to_wire(now), change)
        };
        if let Some(lasts) = lasts {
            tokio::spawn(async move {
                tokio::time::sleep(lasts.to_std()).await;
                let mut history = log.history();
                if history.end(change) && log.apply(&history).is_ok() {
                    tracing::info!(filter = %history.in_force(), "what was logged for some time only has ended");
                }
            });
        }
        Ok(Response::new(v1::SetLogFilterResponse { filter: Some(wire) }))
    }
}

/// The filter that a call asks for; `None`: that of the start.
fn asked(message: &v1::SetLogFilterRequest) -> Result<Option<Targets>, InvalidField> {
    if !message.as_at_start {
        return parse("filter", &message.filter).map(Some);
    }
    match message.filter.is_empty() {
        true => Ok(None),
        false => {
            let shown = InvalidField::quoted(&message.filter);
            Err(InvalidField::new("filter", shown, "nothing, with `as_at_start`"))
        }
    }
}

fn lasts(message: &v1::SetLogFilterRequest) -> Result<Option<Span>, InvalidField> {
    let Some(wire) = &message.lasts else { return Ok(None) };
    let lasts = span_from_wire("lasts", wire)?;
    if message.as_at_start {
        return Err(InvalidField::new("lasts", lasts, "nothing, with `as_at_start`"));
    }
    let (least, most) = (limits::LOG_FILTER_LASTS_MIN, limits::LOG_FILTER_LASTS_MAX);
    match (least..=most).contains(&lasts) {
        true => Ok(Some(lasts)),
        false => Err(InvalidField::new("lasts", lasts, format!("{least} to {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_word_that_is_no_level_and_no_part_is_a_mistake() {
        for good in [
            "debug",
            "info,coalloc_grc=debug",
            "coalloc_net::server=trace, warn",
            "off",
            "rustls=info",
        ] {
            assert!(parse("filter", good).is_ok(), "{good}");
        }
        for (wrong, hint) in [
            ("debgu", "did you mean debug?"),
            ("info,coalloc_gcr=debug", "did you mean coalloc_grc"),
            ("coaloc_grc=debug", "did you mean coalloc_grc"),
            ("sqlx=debug", "parts: axum, coalloc_cli"),
            ("coalloc_grc=loud", "a level (off"),
            ("info,coalloc_rm=9", "a level (off"),
            ("a=b=c\n", "a level (off"),
            ("", "a level (off"),
        ] {
            let error = parse("filter", wrong).unwrap_err().to_string();
            assert!(error.contains(hint) && !error.contains('\n'), "{wrong:?}: {error}");
        }
        let long = format!("info,{}", "h2=info,".repeat(200));
        assert!(parse("filter", &long).unwrap_err().to_string().contains("1 to 1000"));
    }

    fn filter(text: &str) -> Targets {
        text.parse().unwrap()
    }

    #[test]
    fn a_filter_for_some_time_gives_way_to_the_lasting_one() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(600));
        let mut history = FilterHistory::new(filter("info"), filter("info"));
        history.change(filter("warn"), None);
        let first = history.change(filter("debug"), Some(later));
        let second = history.change(filter("trace"), Some(later));
        let wire = history.to_wire(now);
        assert_eq!((wire.filter.as_str(), wire.afterwards.as_str()), ("trace", "warn"));
        assert!(wire.ends_in.unwrap().seconds >= 599, "{wire:?}");
        assert!(!history.end(first), "it was changed since");
        assert_eq!(history.in_force(), &filter("trace"));
        assert!(history.end(second));
        assert_eq!(history.in_force(), &filter("warn"));
        let third = history.change(filter("debug"), Some(later));
        history.change(filter("error"), None);
        assert!(!history.end(third));
        let wire = history.to_wire(now);
        assert_eq!(
            (wire.filter.as_str(), wire.ends_in, wire.at_start.as_str()),
            ("error", None, "info")
        );
    }

    #[test]
    fn back_to_the_start_takes_no_filter_and_no_time() {
        let message = |filter: &str, seconds: i64, as_at_start| v1::SetLogFilterRequest {
            filter: filter.to_owned(),
            lasts: (seconds > 0).then_some(coalloc_proto::Duration { seconds, nanos: 0 }),
            as_at_start,
        };
        assert_eq!(asked(&message("", 0, true)).unwrap(), None);
        assert!(asked(&message("debug", 0, true)).is_err());
        assert!(lasts(&message("", 60, true)).is_err());
        assert!(lasts(&message("debug", 86_401, false)).is_err());
        assert_eq!(lasts(&message("debug", 60, false)).unwrap(), Some(Span::from_secs(60)));
    }
}
