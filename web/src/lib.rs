//! The coordinator over HTTP, for those who do not speak gRPC: curl, browsers, and libraries of any language.
//!
//! * [`listener`]: connections, with TLS and bounds, and who is at their other end.
//! * [`json`]: every method of the coordinator as `POST /SERVICE/METHOD` with canonical proto3 JSON, by the unary rules of
//!   the Connect protocol.
//! * [`events`]: methods that answer with a stream, as server-sent events.
//! * [`changes`]: the coordinator's changes, which all pages follow together.
//! * [`error`]: a status of gRPC as an answer of HTTP.
//! * `pages`: the coordinator's page, for people with a browser.
//! * `site`: whether a request comes from a page of another site.
//!
//! Whatever is called here is called by the caller's own rights ([`LocalServices`]). For methods a certificate or a bearer
//! token says who that is, never a cookie. So nothing that a browser adds by itself can call a method. Pages read a cookie,
//! too, and their forms have a secret of their own.
//!
//! Left out: what the methods do, which `grc` has, and services of resource managers. Source: the Connect protocol
//! reference, "Unary-Request" and "Unary-Response"; WHATWG HTML, section 9.2 (server-sent events).

pub mod changes;
pub mod error;
pub mod events;
mod host;
pub mod json;
pub mod listener;
mod pages;
mod site;

use std::path::PathBuf;

use axum::Router;
use axum::routing::any;
use coalloc_net::server::local::LocalServices;

use self::changes::ChangeSource;

/// The services whose methods can be called here.
const SERVICES: [&str; 2] = ["coalloc.v1.Coordinator", "coalloc.v1.Workflows"];

/// What the answers are made from.
pub struct WebSources {
    /// The coordinator's services.
    pub services: LocalServices,
    /// Its changes.
    pub changes: ChangeSource,
    /// The folder whose reports of experiments are shown; `None`: none are.
    pub experiments: Option<PathBuf>,
}

/// What answers the requests of this listener.
fn router(sources: WebSources, has_tls: bool) -> Router {
    let services = &sources.services;
    let mut router = Router::new();
    for service in SERVICES {
        router = router.route(&format!("/{service}/{{method}}"), any(json::answer));
    }
    let router = router.with_state(services.clone());
    router.merge(pages::router(sources, has_tls)).fallback(json::nothing_here)
}
