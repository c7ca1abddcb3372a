//! What all pages have in common: the head, the navigation, the style, the script, and the headers that bound what a browser
//! does with them.

use axum::body::Body;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use maud::{DOCTYPE, Markup, html};

use super::visitor::Visitor;

/// Nothing comes from anywhere else, and nothing that stands in a page is carried out.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const DRAWING_POLICY: &str =
    "default-src 'none'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'; sandbox";
const STYLE: &str = include_str!("pages.css");
const SCRIPT: &str = include_str!("pages.js");
/// The page of experiments.
pub(super) const EXPERIMENTS: &str = "/experiments";
const ICON: &str = include_str!("icon.svg");

/// The pages of the navigation; that of experiments only where there are any.
const PAGES: [(&str, &str); 8] = [
    ("/", "Timeline"),
    ("/map", "Map"),
    ("/request", "Request"),
    ("/reservations", "Reservations"),
    ("/workflows", "Workflows"),
    ("/pictures", "Pictures"),
    (EXPERIMENTS, "Experiments"),
    ("/health", "Health"),
];

/// What is around the content of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// The heading.
    pub(super) title: &'a str,
    /// The page of the navigation to which it belongs.
    pub(super) here: &'a str,
    /// Is the page read again when something happens?
    pub(super) is_live: bool,
}

/// A page.
pub(super) fn respond(
    visitor: &Visitor,
    status: StatusCode,
    frame: Frame<'_>,
    content: &Markup,
) -> Response<Body> {
    let page = page(visitor, frame, content).into_string();
    let mut response = asset("text/html; charset=utf-8", page);
    *response.status_mut() = status;
    if let Some(cookie) = visitor.cookies() {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

fn page(visitor: &Visitor, frame: Frame<'_>, content: &Markup) -> Markup {
    let Frame { title, here, is_live } = frame;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Coalloc" }
                link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/style.css";
                script src="/assets/script.js" defer {}
            }
            body {
                a class="skip" href="#main" { "Skip to the content" }
                header {
                    div class="bar" {
                        span class="brand" { "Coalloc" }
                        nav aria-label="Pages" {
                            @for (path, name) in PAGES.iter().filter(|(path, _)| *path != EXPERIMENTS || visitor.has_experiments()) {
                                a href=(path) aria-current=[(*path == here).then_some("page")] { (name) }
                            }
                        }
                    }
                    div class="bar small" {
                        (visitor.greeting())
                        @if visitor.is_stranger() { a href="/sign-in" { "Sign in" } }
                        p id="live" role="status" {}
                    }
                }
                main id="main" tabindex="-1" data-live=[is_live.then_some("yes")] {
                    h1 { (title) }
                    (content)
                }
            }
        }
    }
}

/// A redirect after a form, so that reading the page again does not send the form again.
pub(super) fn redirect(to: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    // Paths are of ASCII: what is in an id is encoded.
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, to);
    response
}

/// A drawing that came from a file. Opened by itself it is a document: then nothing in it is carried out or asked for, and it
/// belongs to no site. Pages of other sites cannot have it.
pub(super) fn drawing(content: Vec<u8>) -> Response<Body> {
    let mut response = asset("image/svg+xml", content);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(DRAWING_POLICY));
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
    response
}

fn asset(kind: &'static str, content: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(content.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// `GET /assets/style.css`.
pub(super) async fn style() -> Response<Body> {
    asset("text/css; charset=utf-8", STYLE)
}

/// `GET /assets/script.js`.
pub(super) async fn script() -> Response<Body> {
    asset("text/javascript; charset=utf-8", SCRIPT)
}

/// `GET /assets/icon.svg`.
pub(super) async fn icon() -> Response<Body> {
    asset("image/svg+xml", ICON)
}

/// The answer with the headers that bound what a browser does with it.
pub(super) async fn bounded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    // A plot has a stricter policy of its own.
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_page_has_a_policy_and_nothing_that_the_policy_forbids() {
        let visitor = Visitor::with_secret("0123456789abcdef0123456789abcdef");
        let frame = Frame { title: "<b>&\"", here: "/map", is_live: true };
        let text = page(&visitor, frame, &html! { p { "x" } }).into_string();
        assert!(text.contains("<h1>&lt;b&gt;&amp;&quot;</h1>"), "{text}");
        assert!(text.contains("<a href=\"/map\" aria-current=\"page\">"), "{text}");
        for forbidden in [" style=", "<style", " onclick=", "javascript:", "http://", "https://"] {
            assert!(!text.contains(forbidden), "{forbidden}: {text}");
        }
        assert_eq!(text.matches("<script").count(), text.matches("<script src=\"/").count());
        let response = bounded(respond(&visitor, StatusCode::OK, frame, &html! {})).await;
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    }

    #[test]
    fn style_and_script_ask_nobody_else_and_the_script_is_short() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("://") && !text.contains("@import"));
        }
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("eval("));
        assert!(SCRIPT.lines().count() <= 300);
    }
}
