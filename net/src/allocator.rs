//! The allocator of every daemon, and of the command line.
//!
//! A reserve call makes and drops thousands of small values on several threads: plans, messages, JSON.
//! With the system's allocator a quarter of a busy coordinator's time went there (`docs/FIGURES.md`), and
//! the one that static binaries get is slower still.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
