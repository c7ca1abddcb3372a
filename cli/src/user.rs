//! The commands of users and operators, one module each. They work with a federation that already exists:
//! with its daemons, with its federation file, or with the ledger of one node.
//!
//! * Plans: [`plan`], [`find_window`], [`picture`], and [`offline`] for both without any daemon.
//! * Reservations: [`reserve`] (and [`request`], its files), [`allocate`] (and [`servers`]), [`series`], [`modify`], [`provision`] (and
//!   deprovision), [`list`], [`reservations`] (show), [`release`], [`task`], [`workflow`], [`watch`] and [`quota`].
//! * A federation of one's own: [`init`] writes it, [`up`] runs its [`daemons`], [`down`] stops them, and [`config`] explains its fields.
//! * What is there: [`topology`], [`usage`] and [`bookings`].
//! * Operation: [`serve`], [`health`], [`doctor`], [`log_level`], [`repair`], [`give_up`], [`ledger`] and [`certs`].
//!
//! [`wording`] holds the sentences that several of them show.
//!
//! Commands that start a federation to try or measure it, load one, or judge one are not here (`testbed`), and experiments are
//! neither (`experiments`).

pub mod allocate;
pub mod bookings;
pub mod certs;
pub mod config;
pub mod daemons;
pub mod doctor;
pub mod down;
pub mod find_window;
pub mod give_up;
pub mod health;
pub mod init;
pub mod ledger;
pub mod list;
pub mod log_level;
pub mod modify;
pub mod offline;
pub mod picture;
pub mod plan;
pub mod provision;
pub mod quota;
pub mod release;
pub mod repair;
pub mod request;
pub mod reservations;
pub mod reserve;
pub mod series;
pub mod serve;
pub mod servers;
pub mod task;
pub mod topology;
pub mod up;
pub mod usage;
pub mod watch;
pub mod wording;
pub mod workflow;
