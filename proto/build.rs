//! Compiles the schema with protox (no system protoc), tonic and the canonical JSON mapping.

use std::path::PathBuf;

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "coalloc/v1/types.proto",
        "coalloc/v1/resource_manager.proto",
        "coalloc/v1/coordinator.proto",
        "coalloc/v1/files.proto",
        "coalloc/v1/tasks.proto",
        "coalloc/v1/workflows.proto",
        "coalloc/v1/ledgers.proto",
    ];
    println!("cargo::rerun-if-changed=coalloc");
    let descriptors = protox::compile(files, ["."])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), &encoded)?;
    tonic_prost_build::configure()
        .compile_well_known_types(true)
        .extern_path(".google.protobuf", "crate")
        .compile_fds(descriptors)?;
    pbjson_build::Builder::new().register_descriptors(&encoded)?.build(&[".coalloc.v1"])?;
    Ok(())
}
