//! What all commands are made of: exit codes and failures ([`exit`]), bad arguments ([`arguments`]), the files that users write ([`input_file`]), calls to daemons ([`rpc`]) and to whichever process leads ([`leader_channel`]), instants on
//! the command line ([`when`]), requests from files ([`request`]) and from flags alone ([`request_flags`]), certificates and who issues them
//! ([`authority`], and [`certificates`] for a whole federation), how long certificates last ([`expiry`]), the fields of files ([`schema`]), the resources of
//! resource managers ([`resources`]),
//! and how values ([`text`]), times of a zone ([`zone`]), lists ([`output`]) and timetables ([`gantt`]) look in text.
//!
//! No command is here, and nothing here knows a command. The other folders import this one.

pub mod arguments;
pub mod authority;
pub mod certificates;
pub mod exit;
pub mod expiry;
pub mod gantt;
pub mod input_file;
pub mod leader_channel;
pub mod output;
pub mod recurrence;
pub mod request;
pub mod request_flags;
pub mod resources;
pub mod rpc;
pub mod schema;
pub mod text;
pub mod when;
pub mod zone;
