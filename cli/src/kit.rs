//! What all commands are made of.
//!
//! * What is typed: arguments that are wrong ([`arguments`]), instants and lengths ([`when`]), how something repeats ([`recurrence`]),
//!   files ([`input_file`]), requests from a file ([`request`]) or from flags alone ([`request_flags`]), the fields of files ([`schema`]).
//! * Who is called: calls to daemons ([`rpc`]), and to whichever process leads ([`leader_channel`]); the resources of resource
//!   managers ([`resources`]).
//! * Who ends it: signals to a command that would leave something behind ([`interruption`]).
//! * Certificates, and who issues them ([`authority`], and [`certificates`] for a whole federation), and how long they last ([`expiry`]).
//! * What is drawn: a drawing of lines, areas and texts ([`drawing`]) with the letters of a font ([`font`]), as SVG ([`svg`]); files
//!   that exist completely or not at all ([`whole`]).
//! * What is printed: exit codes and failures ([`exit`]), values ([`text`]), times of a zone ([`zone`]), lists ([`output`]), timetables
//!   ([`gantt`]); on a terminal with colours ([`colour`]), by a pager ([`pager`]), and with what is waited for ([`progress`]).
//!
//! No command is here, and nothing here knows a command. The other folders import this one.

pub mod arguments;
pub mod authority;
pub mod certificates;
pub mod colour;
pub mod drawing;
pub mod exit;
pub mod expiry;
pub mod font;
pub mod gantt;
pub mod input_file;
pub mod interruption;
pub mod leader_channel;
pub mod output;
pub mod pager;
pub mod progress;
pub mod recurrence;
pub mod request;
pub mod request_flags;
pub mod resources;
pub mod rpc;
pub mod schema;
pub mod svg;
pub mod text;
pub mod when;
pub mod whole;
pub mod zone;
