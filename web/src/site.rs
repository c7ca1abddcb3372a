//! From which site a request comes, as a browser says it.
//!
//! A browser adds a certificate and cookies to a request by itself, whichever page has asked for it, and says in
//! `Sec-Fetch-Site` whose page that was. No page can say it otherwise. A program need not say it.
//!
//! Source: W3C, "Fetch Metadata Request Headers".

use http::HeaderMap;

/// The header.
const SITE: &str = "sec-fetch-site";

/// Does the request come from a page of this listener, or from no browser that could say so?
pub(crate) fn is_own(headers: &HeaderMap) -> bool {
    headers.get(SITE).is_none_or(|site| site == "same-origin")
}

/// Does the request come from a page of another site? What a person has typed (`none`) comes from no page.
pub(crate) fn is_foreign(headers: &HeaderMap) -> bool {
    !is_own(headers) && headers.get(SITE).is_none_or(|site| site != "none")
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_page_of_another_site_is_known_by_its_header() {
        let said = |site: &'static str| {
            let pair = (HeaderName::from_static(SITE), HeaderValue::from_static(site));
            let headers = HeaderMap::from_iter([pair]);
            (is_own(&headers), is_foreign(&headers))
        };
        assert_eq!(said("same-origin"), (true, false));
        assert_eq!(said("none"), (false, false));
        for site in ["cross-site", "same-site", "", "SAME-ORIGIN"] {
            assert_eq!(said(site), (false, true), "{site}");
        }
        assert!(is_own(&HeaderMap::new()) && !is_foreign(&HeaderMap::new()));
    }
}
