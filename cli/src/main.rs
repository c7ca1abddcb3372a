//! The program `coalloc`. All of its code is in the library, so that tests can call it.

fn main() -> std::process::ExitCode {
    coalloc_cli::main()
}
