//! The name under which a reader speaks to this listener.
//!
//! In plain text everybody on this machine may do everything. So could any page of the web whose name leads to a loopback
//! address, because a browser believes names. Who proves nothing therefore has to use an address, or `localhost`.
//!
//! Source: the Fetch standard has no such rule; the attack is known as DNS rebinding.

use http::HeaderMap;
use http::header::HOST;
use http::uri::Authority;

/// What is said to a caller who came under another name.
pub(crate) const WRONG_NAME: &str =
    "in plain text this listener has to be named by its address, or as localhost\n";

/// Does the request name this listener by an address?
pub(crate) fn is_address(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = host.and_then(|host| host.parse::<Authority>().ok());
    let name = authority.as_ref().map(Authority::host).unwrap_or_default();
    let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    is_address || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn an_address_is_no_name() {
        let host =
            |name: &str| HeaderMap::from_iter([(HOST, HeaderValue::from_str(name).unwrap())]);
        for name in ["127.0.0.1:7002", "[::1]:7002", "localhost", "LOCALHOST:1"] {
            assert!(is_address(&host(name)), "{name}");
        }
        for name in ["evil.example", "127.0.0.1.evil.example:7002", "", "localhost.evil.example"] {
            assert!(!is_address(&host(name)), "{name}");
        }
        assert!(!is_address(&HeaderMap::new()));
    }
}
