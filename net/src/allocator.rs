//! The allocator of every daemon, and of the command line.
//!
//! A reserve call creates and drops thousands of small values on several threads: plans, messages, JSON. With
//! the system's allocator, a busy coordinator spent a quarter of its time on that (`docs/FIGURES.md`), and
//! the allocator that static binaries get is slower still.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
