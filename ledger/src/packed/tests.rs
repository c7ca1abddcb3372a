//! Tests of the packed form: it is read back as it was, it is small, and what no release wrote is refused.

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, ResourceId, RmName, Segment, Span, Time, TransactionId,
    UserName, Window,
};
use coalloc_protocol::ProvenPeer;
use coalloc_protocol::message::HoldOrder;
use coalloc_protocol::participant::ParticipantRecord;
use coalloc_protocol::participant::equipment::Claim;
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;

/// The words that have been released. Their numbers stand in ledgers, so neither the words nor their order may change:
/// new words come after them, and then this number and the digest are those of all words.
#[test]
fn released_words_never_change() {
    assert_eq!(WORDS.len(), 239);
    let digest = crate::tip::hex(&Sha256::digest(WORDS.join(" ")));
    assert_eq!(&digest[..16], "631eba37f85006fe");
    assert_eq!(NUMBERS.len(), WORDS.len(), "no word stands twice");
}

#[test]
fn every_word_is_read_back_from_its_number() {
    for (number, word) in (0..).zip(WORDS) {
        let packed = pack(word).unwrap();
        let most = if number < 16 { 1 } else { 3 };
        assert!(packed.len() <= most, "{word}: {packed:?}");
        assert_eq!(unpack::<String>(&packed).unwrap(), *word);
    }
}

/// Written down by hand from the drafts, so that another reader can be built from them: a map of two entries, `record` (word
/// 0) to the bytes of sixteen digits, and `txn` (word 4) to `picked` (word 26: tag 6 with 5).
#[test]
fn the_form_is_that_of_packed_cbor() {
    assert_eq!(WORDS[26], "picked");
    let packed = pack(&json!({"record": "00ff00ff00ff00ff", "txn": "picked"})).unwrap();
    let expected = b"\xa2\xe0\x48\x00\xff\x00\xff\x00\xff\x00\xff\xe4\xc6\x05";
    assert_eq!(packed, expected);
    let odd = pack(&json!(WORDS[17])).unwrap();
    assert_eq!(odd, b"\xc6\x20", "tag 6 with -1");
}

fn held() -> ParticipantRecord {
    let at = Time::from_us(1_795_219_200_000_000);
    let window = Window::starting(at.saturating_add(Span::from_secs(600)), Span::from_secs(3_600));
    let resource = ResourceId::composed("N0-N1");
    let segment = Segment { resource, amount: Amount(400), window: window.unwrap() };
    let order = HoldOrder {
        txn: TransactionId::composed("grc-1a2b3c4d-17/1"),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("alice"),
        segments: vec![segment],
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    };
    ParticipantRecord::Held {
        order,
        soft: Span::from_secs(30),
        hard: Span::from_secs(120),
        at: Now { wall: at, boot: BootTime::from_us(86_400_000_000) },
        inner: None,
        servers: Vec::new(),
        claim: Claim::NotNeeded,
    }
}

#[test]
fn a_hold_takes_at_most_150_bytes() {
    let (record, rm) = (held(), RmName::composed("nrm-N"));
    let json = serde_json::to_string(&record).unwrap();
    let packed = pack(&record).unwrap();
    assert!(packed.len() <= 150, "{} bytes for {} of JSON ({rm})", packed.len(), json.len());
    assert_eq!(unpack::<ParticipantRecord>(&packed).unwrap(), record);
    assert_eq!(to_json(&packed).unwrap(), json);
}

#[test]
fn a_causer_is_packed_too() {
    let peer = ProvenPeer {
        peer: "spiffe://grid/coalloc/coordinator/grc".to_owned(),
        issuer: Some("CN=grid".to_owned()),
        subject: Some("5e".repeat(32)),
    };
    let packed = pack(&peer).unwrap();
    assert!(packed.len() < 100, "{}", packed.len());
    assert_eq!(unpack::<ProvenPeer>(&packed).unwrap(), peer);
}

#[test]
fn what_no_release_writes_is_refused() {
    let deep = [vec![0x81; DEPTH_MAX + 1], vec![0x01]].concat();
    for (what, bytes) in [
        ("nothing", &b""[..]),
        ("two values", b"\x01\x01"),
        ("a map that ends early", b"\xa1\xe0"),
        ("an unknown word", b"\xc6\x1a\x00\x0f\xff\xff"),
        ("a tag of another kind", b"\xc1\x01"),
        ("a word without its number", b"\xc6\x61\x61"),
        ("a map without length", b"\xbf\xe0\x01\xff"),
        ("undefined", b"\xf7"),
        ("too deep", &deep),
        ("a length beyond the end", b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff"),
    ] {
        assert!(unpack::<Value>(bytes).is_err(), "{what}");
        assert!(to_json(bytes).is_err(), "{what}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        proptest::sample::select(WORDS).prop_map(str::to_owned),
        "[0-9a-f]{0,40}",
        "[0-9A-Fa-f]{16}",
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no others", |n| n.is_finite()).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(text.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_is_read_back(value in value()) {
        let packed = pack(&value).unwrap();
        prop_assert_eq!(&unpack::<Value>(&packed).unwrap(), &value);
        prop_assert_eq!(to_json(&packed).unwrap(), serde_json::to_string(&value).unwrap());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        drop(unpack::<Value>(&bytes));
        drop(unpack::<ParticipantRecord>(&bytes));
        drop(to_json(&bytes));
    }

    #[test]
    fn no_damaged_record_makes_a_reader_panic(at in 0_usize..100, byte in any::<u8>()) {
        let mut packed = pack(&held()).unwrap();
        let at = at % packed.len();
        packed[at] = byte;
        drop(unpack::<ParticipantRecord>(&packed));
        drop(to_json(&packed));
    }
}
