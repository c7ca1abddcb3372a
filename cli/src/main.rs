//! The program `coalloc`; everything is in the library, so that tests can reach it.

fn main() -> std::process::ExitCode {
    coalloc_cli::main()
}
