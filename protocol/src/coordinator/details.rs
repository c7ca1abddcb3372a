//! A text that a shell keeps with a candidate. The core returns it and never looks at it.
//!
//! Of ten candidates, usually one is tried, and writing the text costs more than everything that the core does
//! with them. So a candidate may come with a function instead. The text is written when the candidate is tried,
//! as part of its intent (D1).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text, or a function that writes it. The function must be pure, because a replay has only the text that was
/// recorded.
#[derive(Clone)]
pub struct Details(Text);

#[derive(Clone)]
enum Text {
    Written(Arc<str>),
    Unwritten(Arc<dyn Fn() -> String + Send + Sync>),
}

impl Details {
    /// A text that is written when it is needed. The function must return the same text at every call.
    pub fn later(write: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Text::Unwritten(Arc::new(write)))
    }

    /// The text, written now if it was not written before.
    #[must_use]
    pub fn text(&self) -> Arc<str> {
        match &self.0 {
            Text::Written(text) => Arc::clone(text),
            Text::Unwritten(write) => write().into(),
        }
    }

    /// The same details as a text that will not be written again.
    pub(super) fn written(self) -> Self {
        Self(Text::Written(self.text()))
    }
}

impl Default for Details {
    fn default() -> Self {
        String::new().into()
    }
}

impl From<String> for Details {
    fn from(text: String) -> Self {
        Self(Text::Written(text.into()))
    }
}

impl fmt::Debug for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Text::Written(text) => text.fmt(f),
            Text::Unwritten(_) => f.write_str("(unwritten)"),
        }
    }
}

impl PartialEq for Details {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Details {}

impl Serialize for Details {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Details {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_text_is_written_once_and_read_back_as_it_was() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let details = Details::later(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            "a \"plan\"".to_owned()
        });
        assert_eq!(format!("{details:?}"), "(unwritten)");
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        let written = details.written();
        for _ in 0..3 {
            assert_eq!(&*written.text(), "a \"plan\"");
        }
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let json = serde_json::to_string(&written).unwrap();
        assert_eq!(json, r#""a \"plan\"""#);
        assert_eq!(serde_json::from_str::<Details>(&json).unwrap(), written);
    }
}
