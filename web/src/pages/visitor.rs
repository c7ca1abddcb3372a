//! Who reads a page: the owner of the connection's certificate, or else the user of a token in a cookie.
//!
//! A token is pasted into a form once. Then the browser keeps it in a cookie until it ends: no script can read the cookie, no
//! other site sends it along, and methods never look at it. In plain text everybody is the same caller, as for gRPC.
//!
//! Left out: how a token is verified, which the coordinator does at each call. Source: RFC 6265bis (cookies, and the prefix
//! `__Host-`).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use coalloc_common::limits;
use coalloc_net::identity::server::ProvenClient;
use coalloc_net::server::local::LocalChannel;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use maud::{Markup, html};
use tonic::{Code, Status};
use uuid::Uuid;

use super::PageState;
use super::calls::PageCalls;
use super::form::Form;
use super::frame::{Frame, redirect, respond};
use super::words::text;
use crate::listener::WebClient;
use crate::{host, json};

/// Digits of the secret of forms.
const SECRET_DIGITS: usize = 32;

/// Who reads a page.
#[derive(Clone)]
pub(super) struct Visitor {
    client: Option<Arc<ProvenClient>>,
    token: Option<String>,
    /// What every form of this browser has to send back.
    secret: String,
    /// Is the secret new, so that the browser has yet to be told?
    is_new: bool,
    has_tls: bool,
    /// Does the coordinator show experiments to its visitors?
    has_experiments: bool,
}

impl FromRequestParts<PageState> for Visitor {
    type Rejection = Response<Body>;

    async fn from_request_parts(
        head: &mut Parts,
        state: &PageState,
    ) -> Result<Self, Self::Rejection> {
        if !state.has_tls && !host::is_address(&head.headers) {
            let text = host::WRONG_NAME.to_owned();
            return Err(json::plain(StatusCode::MISDIRECTED_REQUEST, text));
        }
        let client = head.extensions.get::<WebClient>().cloned().unwrap_or_default().proven;
        let has_experiments = state.experiments.is_some();
        Ok(Self { has_experiments, ..Self::of(&head.headers, client, state.has_tls) })
    }
}

impl Visitor {
    fn of(headers: &HeaderMap, client: Option<Arc<ProvenClient>>, has_tls: bool) -> Self {
        let token = cookie(headers, token_cookie()).filter(|token| is_token(token) && has_tls);
        let is_secret = |secret: &String| {
            secret.len() == SECRET_DIGITS && secret.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        let known = cookie(headers, secret_cookie(has_tls)).filter(is_secret);
        let is_new = known.is_none();
        let secret = known.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
        Self { client, token, secret, is_new, has_tls, has_experiments: false }
    }

    /// A visitor in plain text, with this secret.
    #[cfg(test)]
    pub(super) fn with_secret(secret: &str) -> Self {
        let secret = secret.to_owned();
        let (client, token) = (None, None);
        Self { client, token, secret, is_new: false, has_tls: false, has_experiments: false }
    }

    /// What every form of this browser has to send back; not known to anybody else.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// Is the browser still to be told the secret? Then it cannot have sent it back.
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// A channel on behalf of the visitor.
    pub(super) fn channel(&self, state: &PageState) -> LocalChannel {
        // A certificate says who it is, even if there is a token, too.
        let token = self.token.as_ref().filter(|_| self.client.is_none());
        let token = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
        state.services.channel(self.client.clone(), token)
    }

    /// Does the coordinator show experiments?
    pub(super) const fn has_experiments(&self) -> bool {
        self.has_experiments
    }

    /// Has the visitor shown nothing, where something can be shown?
    pub(super) const fn is_stranger(&self) -> bool {
        self.has_tls && self.client.is_none() && self.token.is_none()
    }

    /// The cookies that the browser does not have yet.
    pub(super) fn cookies(&self) -> Option<HeaderValue> {
        self.is_new.then(|| set_cookie(secret_cookie(self.has_tls), &self.secret, self.has_tls))
    }

    /// Who reads, in the head of a page, with the way to become somebody else.
    pub(super) fn greeting(&self) -> Markup {
        html! {
            p class="reader" {
                @if let Some(client) = &self.client {
                    "You are " b { (text(&client.owner.identity.to_string())) } " by your certificate"
                } @else if self.token.is_some() {
                    "Signed in by a token"
                } @else if self.has_tls {
                    "Nobody is signed in"
                } @else {
                    "In plain text everybody on this machine may do everything"
                }
            }
            @if self.client.is_none() && self.token.is_some() {
                form method="post" action="/sign-out" class="inline" {
                    (Form::hidden(self))
                    button type="submit" class="quiet" { "Sign out" }
                }
            }
        }
    }
}

/// May this be a token, and does it fit a cookie?
fn is_token(token: &str) -> bool {
    let is_fit = (1..=limits::WEB_TOKEN_MAX_BYTES).contains(&token.len());
    is_fit && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The cookie of the token: by its prefix browsers keep it for exactly this host, and only over TLS.
const fn token_cookie() -> &'static str {
    "__Host-coalloc-token"
}

const fn secret_cookie(has_tls: bool) -> &'static str {
    if has_tls { "__Host-coalloc-form" } else { "coalloc-form" }
}

/// The value of a cookie in a request.
fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(one, _)| one.trim() == name)?;
    Some(value.trim().to_owned())
}

/// A cookie for as long as the browser runs. An empty value removes it.
fn set_cookie(name: &str, value: &str, has_tls: bool) -> HeaderValue {
    let secure = if has_tls { "; Secure" } else { "" };
    let end = if value.is_empty() { "; Max-Age=0" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{end}");
    // Names and values are of letters, digits and `-_.`.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// `GET /sign-in`.
pub(super) async fn ask(visitor: Visitor) -> Response<Body> {
    respond(&visitor, StatusCode::OK, frame(), &form(&visitor, None))
}

const fn frame() -> Frame<'static> {
    Frame { title: "Sign in", here: "/sign-in", is_live: false }
}

/// What a visitor sees whom the coordinator does not know, or not any more.
pub(super) fn unknown(visitor: &Visitor, why: &str) -> Response<Body> {
    respond(visitor, StatusCode::UNAUTHORIZED, frame(), &form(visitor, Some(why)))
}

fn form(visitor: &Visitor, why: Option<&str>) -> Markup {
    html! {
        @if let Some(why) = why {
            p class="trouble" role="alert" { (text(why)) }
        }
        @if visitor.has_tls {
            p {
                "A certificate of yours in this browser signs you in by itself. Otherwise paste a token of your login "
                "service. It stays in this browser until the browser ends, or until you sign out."
            }
            form method="post" action="/sign-in" class="stacked" {
                (Form::hidden(visitor))
                label for="token" { "Token" }
                textarea id="token" name="token" rows="6" required autocomplete="off" spellcheck="false" {}
                button type="submit" { "Sign in" }
            }
        } @else {
            p { "This listener is in plain text: nobody has to sign in, and nobody can." }
        }
    }
}

/// `POST /sign-in`.
pub(super) async fn sign_in(
    State(state): State<PageState>,
    visitor: Visitor,
    request: Request,
) -> Response<Body> {
    let form = match Form::read(&visitor, request).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let token = form.field("token").trim();
    let token = token.strip_prefix("Bearer ").unwrap_or(token).trim().to_owned();
    if !is_token(&token) {
        let most = limits::WEB_TOKEN_MAX_BYTES;
        let why = format!(
            "this is no token; allowed: a JSON Web Token of letters, digits, '-', '_' and '.', up to {most} bytes"
        );
        return unknown(&visitor, &why);
    }
    if !state.has_tls {
        return unknown(&visitor, "no token is taken in plain text");
    }
    let signed_in = Visitor { token: Some(token.clone()), client: None, ..visitor.clone() };
    match PageCalls::new(&state, &signed_in).who().await {
        Err(status) if status.code() == Code::Unauthenticated => {
            return unknown(&visitor, status.message());
        }
        // Not everybody has a quota, and whoever is denied that may be allowed other things.
        Ok(()) | Err(_) => {}
    }
    with_new_secret(redirect("/"), token_cookie(), &token)
}

/// `POST /sign-out`.
pub(super) async fn sign_out(visitor: Visitor, request: Request) -> Response<Body> {
    match Form::read(&visitor, request).await {
        Ok(_) => with_new_secret(redirect("/sign-in"), token_cookie(), ""),
        Err(response) => response,
    }
}

/// Sets the cookie of the token, and ends the validity of the forms that the browser has.
fn with_new_secret(mut response: Response<Body>, name: &str, value: &str) -> Response<Body> {
    let secret = Uuid::new_v4().simple().to_string();
    let headers = response.headers_mut();
    headers.append(SET_COOKIE, set_cookie(name, value, true));
    headers.append(SET_COOKIE, set_cookie(secret_cookie(true), &secret, true));
    response
}

/// What a visitor sees instead of a page whose call has failed.
pub(super) fn failed(visitor: &Visitor, here: &str, status: &Status) -> Response<Body> {
    if status.code() == Code::Unauthenticated || visitor.is_stranger() {
        let why = if visitor.is_stranger() { "sign in first" } else { status.message() };
        return unknown(visitor, why);
    }
    let body = html! {
        p class="trouble" role="alert" { (text(status.message())) }
        p { a href="/" { "To the timeline" } }
    };
    let frame = Frame { title: "This did not work", here, is_live: false };
    respond(visitor, crate::error::http_status(status.code()), frame, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(cookies: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookies).unwrap())])
    }

    #[test]
    fn cookies_stay_with_this_host_and_out_of_scripts() {
        let cookie = set_cookie(token_cookie(), "a.b.c", true);
        let expected = "__Host-coalloc-token=a.b.c; Path=/; HttpOnly; SameSite=Strict; Secure";
        assert_eq!(cookie, expected);
        let plain = Visitor::of(&HeaderMap::new(), None, false);
        let cookie = plain.cookies().unwrap();
        assert!(cookie.to_str().unwrap().ends_with("; Path=/; HttpOnly; SameSite=Strict"));
        let removed = set_cookie(token_cookie(), "", true);
        assert!(removed.to_str().unwrap().ends_with("; Secure; Max-Age=0"));
    }

    #[test]
    fn a_token_is_read_from_its_cookie_over_tls_only() {
        let headers = sent("other=1; __Host-coalloc-token=a.b-_c; __Host-coalloc-form=x");
        let visitor = Visitor::of(&headers, None, true);
        assert_eq!(visitor.token.as_deref(), Some("a.b-_c"));
        assert!(!visitor.is_stranger());
        // What is no secret is replaced.
        assert!(visitor.is_new() && visitor.secret().len() == SECRET_DIGITS);
        assert!(Visitor::of(&headers, None, false).token.is_none());
        assert!(Visitor::of(&sent("__Host-coalloc-token=a b"), None, true).is_stranger());
        assert!(!Visitor::of(&HeaderMap::new(), None, false).is_stranger());
    }

    #[test]
    fn a_secret_is_kept() {
        let first = Visitor::of(&HeaderMap::new(), None, true);
        let again =
            Visitor::of(&sent(&format!("__Host-coalloc-form={}", first.secret())), None, true);
        assert_eq!((again.secret(), again.is_new()), (first.secret(), false));
        assert!(again.cookies().is_none() && first.cookies().is_some());
        assert_ne!(Visitor::of(&HeaderMap::new(), None, true).secret(), first.secret());
    }

    #[test]
    fn what_is_no_token_goes_into_no_header() {
        for text in ["a.b.c", "A-_9"] {
            assert!(is_token(text), "{text}");
        }
        let long = "a".repeat(limits::WEB_TOKEN_MAX_BYTES + 1);
        for text in ["", "a b", "a;b", "a\nb", "ä", &long] {
            assert!(!is_token(text), "{text}");
        }
    }
}
