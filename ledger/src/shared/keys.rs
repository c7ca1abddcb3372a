//! The keys of one shared log.

/// Makes the keys below a prefix. Numbers have so many digits that the order of keys is that of numbers.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.trim_end_matches('/').to_owned() }
    }

    pub(super) fn id(&self) -> Vec<u8> {
        self.of("id")
    }

    pub(super) fn format(&self) -> Vec<u8> {
        self.of("format")
    }

    pub(super) fn leader(&self) -> Vec<u8> {
        self.of("leader")
    }

    pub(super) fn tip(&self) -> Vec<u8> {
        self.of("tip")
    }

    /// The batch whose first record has this number.
    pub(super) fn log(&self, first: u64) -> Vec<u8> {
        self.of(&format!("log/{first:020}"))
    }

    /// A part of a batch.
    pub(super) fn chunk(&self, first: u64, epoch: i64, number: u32) -> Vec<u8> {
        self.of(&format!("chunk/{first:020}/{epoch:020}/{number:06}"))
    }

    /// A key that is after all parts of batches before this one, and before those of this one.
    pub(super) fn chunks_of(&self, first: u64) -> Vec<u8> {
        self.of(&format!("chunk/{first:020}/"))
    }

    /// The range of all keys.
    pub(super) fn all(&self) -> (Vec<u8>, Vec<u8>) {
        // The digit 0 is the character after the slash.
        (self.of(""), format!("{}0", self.prefix).into_bytes())
    }

    pub(super) fn seen(&self, member: &str) -> Vec<u8> {
        self.of(&format!("seen/{member}"))
    }

    fn of(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.prefix).into_bytes()
    }

    /// The number of the first record of the batch with this key.
    pub(super) fn first(&self, key: &[u8]) -> Option<u64> {
        let key = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        key.strip_prefix("/log/")?.parse().ok()
    }
}
