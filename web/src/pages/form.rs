//! Forms of pages, and how a form of another site is told from one of ours.
//!
//! A form is carried out only if it has the secret that the browser keeps in a cookie of this host, which no other site can
//! read. A browser also says from which site a form comes (`Sec-Fetch-Site`); whatever is not from a page of this listener
//! is refused.
//!
//! Source: OWASP, "Cross-Site Request Forgery Prevention"; W3C, "Fetch Metadata Request Headers".

use axum::body::Body;
use axum::extract::Request;
use coalloc_common::limits;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::frame::{Frame, respond};
use super::visitor::Visitor;
use crate::site::is_own;

/// The field with the secret.
const SECRET: &str = "secret";

/// The fields of a form that may be carried out.
#[derive(Debug)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// The field that every form needs.
    pub(super) fn hidden(visitor: &Visitor) -> Markup {
        html! { input type="hidden" name=(SECRET) value=(visitor.secret()); }
    }

    /// The fields of the request, if it comes from a page of this listener.
    pub(super) async fn read(visitor: &Visitor, request: Request) -> Result<Self, Response<Body>> {
        let refused = |status: StatusCode, why: &str| {
            let frame = Frame { title: "This did not work", here: "", is_live: false };
            let body = html! {
                p class="trouble" role="alert" { (why) }
                p { "Nothing was done. " a href="/" { "Go to the first page" } " and try again." }
            };
            respond(visitor, status, frame, &body)
        };
        let (head, body) = request.into_parts();
        if !is_own(&head.headers) {
            return Err(refused(StatusCode::FORBIDDEN, "This form came from another site."));
        }
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "This is no form."));
        }
        let bytes = axum::body::to_bytes(body, limits::WEB_FORM_MAX_BYTES);
        let bytes = tokio::time::timeout(limits::WEB_BODY_PATIENCE.to_std(), bytes).await;
        let Ok(Ok(bytes)) = bytes else {
            let why = "The form did not arrive whole, or is too large.";
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, why));
        };
        let form = Self(form_urlencoded::parse(&bytes).into_owned().collect());
        if visitor.is_new() || form.field(SECRET) != visitor.secret() {
            let why = "This form is not one that this browser was given, or it is of before you signed in or out.";
            return Err(refused(StatusCode::FORBIDDEN, why));
        }
        Ok(form)
    }

    /// All fields in their order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of a field; empty if there is none.
    pub(super) fn field(&self, name: &str) -> &str {
        self.0.iter().find(|(one, _)| one == name).map_or("", |(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "0123456789abcdef0123456789abcdef";

    async fn sent(body: &str, site: Option<&str>) -> Result<Form, StatusCode> {
        let kind = "application/x-www-form-urlencoded";
        let mut request = Request::builder().method("POST").header(CONTENT_TYPE, kind);
        if let Some(site) = site {
            request = request.header("sec-fetch-site", site);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let read = Form::read(&Visitor::with_secret(OWN), request).await;
        read.map_err(|response| response.status())
    }

    #[tokio::test]
    async fn a_form_without_the_secret_is_refused() {
        let good = format!("token=a%20b&secret={OWN}");
        let form = sent(&good, None).await.unwrap();
        assert_eq!((form.field("token"), form.field("none")), ("a b", ""));
        assert!(sent(&good, Some("same-origin")).await.is_ok());
        for site in ["cross-site", "same-site", "none"] {
            assert_eq!(sent(&good, Some(site)).await.unwrap_err(), StatusCode::FORBIDDEN, "{site}");
        }
        for bad in ["", "secret=", "secret=0123456789abcdef0123456789abcdee", "token=a"] {
            assert_eq!(sent(bad, None).await.unwrap_err(), StatusCode::FORBIDDEN, "{bad}");
        }
        let long = format!("secret={OWN}&token={}", "a".repeat(limits::WEB_FORM_MAX_BYTES));
        assert_eq!(sent(&long, None).await.unwrap_err(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
