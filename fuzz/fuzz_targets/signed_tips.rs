#![no_main]

libfuzzer_sys::fuzz_target!(
    init: coalloc_fuzz::begin(env!("CARGO_BIN_NAME")),
    |bytes: &[u8]| coalloc_fuzz::check(bytes)
);
