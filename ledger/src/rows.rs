//! The rows of the record table: how the formats select them, and how a row becomes a body.
//!
//! Left out: what is done with them, see [`crate::sqlite`], [`crate::look`] and [`crate::reader`].

use std::collections::BTreeMap;

use coalloc_common::limits;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::body::{Body, StoredRecord};

/// Adds a row to the record table.
pub(crate) const INSERT: &str =
    "INSERT INTO record (sequence, body, hash, causer) VALUES (?1, ?2, ?3, ?4)";
/// Adds a causer unless it is there, and returns its number in both cases.
const NUMBER: &str =
    "INSERT INTO causer (body) VALUES (?1) ON CONFLICT DO UPDATE SET body = body RETURNING id";

/// What selects the rows of a format: sequence, body, hash and the body of the causer, in this order. A condition
/// and an order may follow.
pub(crate) const fn select(format: i64) -> &'static str {
    match format {
        1 => "SELECT sequence, body, hash, NULL FROM record",
        _ => {
            "SELECT sequence, record.body, hash, causer.body FROM record \
             LEFT JOIN causer ON causer.id = record.causer"
        }
    }
}

/// The body of a selected row, or what is wrong with it.
pub(crate) fn body<'a>(row: &'a Row<'_>) -> rusqlite::Result<Result<Body<'a>, &'static str>> {
    let causer = match row.get_ref(3)? {
        ValueRef::Null => None,
        ValueRef::Blob(bytes) => Some(bytes),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) => {
            return Ok(Err("its causer is not a blob"));
        }
    };
    Ok(match row.get_ref(1)? {
        ValueRef::Blob(bytes) => Ok(Body { record: StoredRecord::Packed(bytes), causer }),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Body { record: StoredRecord::Json(text), causer }),
            Err(_) => Err("its body is text that is not UTF-8"),
        },
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {
            Err("its body is neither text nor a blob")
        }
    })
}

/// The numbers of causers that were written lately.
#[derive(Debug, Default)]
pub(crate) struct Causers(BTreeMap<Vec<u8>, i64>);

impl Causers {
    /// The number of a packed causer in this ledger; it gets one if it has none. After an error, the ledger is not
    /// written to any more, so a number that was rolled back is never used.
    pub(crate) fn number(
        &mut self,
        connection: &Connection,
        causer: Vec<u8>,
    ) -> rusqlite::Result<i64> {
        if let Some(number) = self.0.get(&causer) {
            return Ok(*number);
        }
        let number = connection.prepare_cached(NUMBER)?.query_row([&causer], |row| row.get(0))?;
        if self.0.len() >= limits::CAUSERS_REMEMBERED {
            self.0.clear();
        }
        self.0.insert(causer, number);
        Ok(number)
    }
}
