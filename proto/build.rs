//! Compiles the schema with protox (no system protoc), tonic and the canonical JSON mapping, in which rates may have units.

use std::path::PathBuf;

use prost::Message as _;
use prost_types::FileDescriptorSet;

/// Messages with a secret, which are not printed whole (`src/secrets.rs`).
const SECRETS: [&str; 2] =
    [".coalloc.v1.MakeCalendarAddressResponse", ".coalloc.v1.ReadCalendarRequest"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "coalloc/v1/types.proto",
        "coalloc/v1/resource_manager.proto",
        "coalloc/v1/coordinator.proto",
        "coalloc/v1/files.proto",
        "coalloc/v1/tasks.proto",
        "coalloc/v1/workflows.proto",
        "coalloc/v1/ledgers.proto",
        "coalloc/v1/logging.proto",
    ];
    println!("cargo::rerun-if-changed=coalloc");
    let descriptors = protox::compile(files, ["."])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), &encoded)?;
    std::fs::write(out.join("methods.rs"), methods(&descriptors)?)?;
    tonic_prost_build::configure()
        .compile_well_known_types(true)
        .extern_path(".google.protobuf", "crate")
        .skip_debug(SECRETS)
        .compile_fds(descriptors)?;
    pbjson_build::Builder::new().register_descriptors(&encoded)?.build(&[".coalloc.v1"])?;
    let mapping = out.join("coalloc.v1.serde.rs");
    let code = std::fs::read_to_string(&mapping)?;
    std::fs::write(&mapping, with_units(&code)?)?;
    Ok(())
}

/// A list of all methods, as entries of `crate::method::METHODS`.
fn methods(descriptors: &FileDescriptorSet) -> Result<String, String> {
    let mut out = String::from("&[\n");
    for file in &descriptors.file {
        for service in &file.service {
            for method in &service.method {
                let own = |name: &str| {
                    let own =
                        name.strip_prefix(".coalloc.v1.").map(|name| format!("crate::v1::{name}"));
                    own.ok_or_else(|| format!("{name} is not a message of coalloc.v1"))
                };
                let (request, answer) = (own(method.input_type())?, own(method.output_type())?);
                let (package, of, name) = (file.package(), service.name(), method.name());
                let streams = method.server_streaming();
                out += &format!(
                    "Method {{ path: \"/{package}.{of}/{name}\", streams: {streams}, \
                     read: read::<{request}>, show: show::<{answer}> }},\n"
                );
            }
        }
    }
    Ok(out + "]")
}

/// The generated mapping, with fields of rates read as `crate::notation::RateField`: numbers as before, and texts with
/// a unit. The generator has no setting for that.
fn with_units(code: &str) -> Result<String, &'static str> {
    const NUMBER: &str = "::pbjson::private::NumberDeserialize<_>";
    let mut out = String::with_capacity(code.len());
    let (mut is_rate, mut count) = (false, 0);
    for line in code.lines() {
        let replaced = if is_rate && line.contains(NUMBER) {
            count += 1;
            line.replace(NUMBER, "crate::notation::RateField")
        } else {
            line.to_owned()
        };
        out += &replaced;
        out.push('\n');
        is_rate = line.trim_end().ends_with("_bps__ =");
    }
    if count == 0 { Err("the generated mapping has no fields of rates") } else { Ok(out) }
}
