//! The first bytes of a client: the HTTP/2 connection preface and the header of its SETTINGS frame (RFC 9113,
//! section 3.4). A client that has sent these speaks HTTP/2. Pure.
//!
//! Left out: the settings themselves, which the HTTP/2 library reads.

/// The 24 bytes that every HTTP/2 client sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame's header.
const HEADER: usize = 9;
/// Number of bytes that are read to judge a connection.
pub(super) const LENGTH: usize = PREFACE.len() + HEADER;
/// Longest frame before the server has allowed longer ones (RFC 9113, section 6.5.2).
const FRAME_MAX: usize = 1 << 14;
/// Length of one setting.
const SETTING: usize = 6;
/// The type of a SETTINGS frame.
const SETTINGS: u8 = 0x4;
/// The flag of an acknowledgement, which cannot come first.
const ACK: u8 = 0x1;

/// What a server sends when it accepts no calls: its SETTINGS, then GOAWAY with no stream and
/// ENHANCE_YOUR_CALM, so that the client knows that none of its calls has begun.
pub(super) const REFUSAL: [u8; 2 * HEADER + 8] = {
    let mut frames = [0; 2 * HEADER + 8];
    frames[3] = SETTINGS;
    frames[HEADER + 2] = 8;
    frames[HEADER + 3] = 0x7;
    frames[2 * HEADER + 7] = 0xb;
    frames
};

/// What the bytes received so far are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefaceStatus {
    /// The beginning of a valid opening.
    Incomplete,
    /// A valid opening.
    Http2,
    /// Something else.
    Foreign,
}

/// Judges the first bytes of a connection, at most [`LENGTH`] of them.
pub(super) fn judge(bytes: &[u8]) -> PrefaceStatus {
    let preface = bytes.len().min(PREFACE.len());
    if bytes[..preface] != PREFACE[..preface] {
        return PrefaceStatus::Foreign;
    }
    let &[a, b, c, kind, flags, s, t, u, v] = &bytes[preface..] else {
        return PrefaceStatus::Incomplete;
    };
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    // The highest bit of the stream's number is reserved, and ignored.
    let connection = u32::from_be_bytes([s & 0x7f, t, u, v]) == 0;
    let settings = kind == SETTINGS && flags & ACK == 0 && connection;
    if settings && length <= FRAME_MAX && length.is_multiple_of(SETTING) {
        PrefaceStatus::Http2
    } else {
        PrefaceStatus::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(header: [u8; HEADER]) -> Vec<u8> {
        [&PREFACE[..], &header[..]].concat()
    }

    #[test]
    fn every_beginning_of_an_opening_is_incomplete_and_the_whole_is_http2() {
        for settings in [0, 1, 7] {
            let whole = opening([0, 0, 6 * settings, SETTINGS, 0, 0, 0, 0, 0]);
            assert_eq!(whole.len(), LENGTH);
            for end in 0..whole.len() {
                assert_eq!(judge(&whole[..end]), PrefaceStatus::Incomplete, "{end} bytes");
            }
            assert_eq!(judge(&whole), PrefaceStatus::Http2);
        }
    }

    #[test]
    fn one_wrong_byte_is_foreign_at_once() {
        for wrong in 0..PREFACE.len() {
            let mut bytes = PREFACE.to_vec();
            bytes[wrong] ^= 0x20;
            assert_eq!(judge(&bytes[..=wrong]), PrefaceStatus::Foreign, "byte {wrong}");
        }
        assert_eq!(judge(b"GET / HTTP/1.1\r\n"), PrefaceStatus::Foreign);
    }

    #[test]
    fn only_settings_may_follow_the_preface() {
        let headers = [
            ([0, 0, 0, 0x1, 0, 0, 0, 0, 1], "HEADERS"),
            ([0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0], "an acknowledgement"),
            ([0, 0, 0, SETTINGS, 0, 0, 0, 0, 1], "SETTINGS of a stream"),
            ([0, 0, 5, SETTINGS, 0, 0, 0, 0, 0], "half a setting"),
            ([0, 0x40, 2, SETTINGS, 0, 0, 0, 0, 0], "SETTINGS that are too long"),
        ];
        for (header, what) in headers {
            assert_eq!(judge(&opening(header)), PrefaceStatus::Foreign, "{what}");
        }
        let reserved = opening([0, 0, 0, SETTINGS, 0, 0x80, 0, 0, 0]);
        assert_eq!(judge(&reserved), PrefaceStatus::Http2);
    }
}
