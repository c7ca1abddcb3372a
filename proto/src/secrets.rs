//! Messages with a secret, as they are printed for debugging: without it, because that stands in logs.

use std::fmt;

use crate::v1;

impl fmt::Debug for v1::MakeCalendarAddressResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "MakeCalendarAddressResponse";
        f.debug_struct(name).field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl fmt::Debug for v1::ReadCalendarRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "ReadCalendarRequest";
        f.debug_struct(name).field("page_token", &self.page_token).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_printed() {
        let secret = "5ec2e7".repeat(10);
        let page_token = "grc-1".to_owned();
        let read = v1::ReadCalendarRequest { secret: secret.clone(), page_token };
        let path = format!("/calendar/{secret}.ics");
        let made = v1::MakeCalendarAddressResponse { secret, path, expires: None };
        assert_eq!(format!("{read:?}"), "ReadCalendarRequest { page_token: \"grc-1\", .. }");
        assert_eq!(format!("{made:?}"), "MakeCalendarAddressResponse { expires: None, .. }");
    }
}
