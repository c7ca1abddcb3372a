//! The rows of the matrix are exactly the methods that daemons serve.

use coalloc_protocol::authorization::matrix::ROWS;
use prost::Message as _;

fn methods(descriptors: &[u8]) -> Vec<String> {
    // The descriptors of descriptors: only names are read.
    #[derive(prost::Message)]
    struct Set {
        #[prost(message, repeated, tag = "1")]
        files: Vec<File>,
    }
    #[derive(prost::Message)]
    struct File {
        #[prost(string, tag = "2")]
        package: String,
        #[prost(message, repeated, tag = "6")]
        services: Vec<Service>,
    }
    #[derive(prost::Message)]
    struct Service {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "2")]
        methods: Vec<Method>,
    }
    #[derive(prost::Message)]
    struct Method {
        #[prost(string, tag = "1")]
        name: String,
    }
    let set = Set::decode(descriptors).unwrap();
    let paths = set.files.iter().flat_map(|file| {
        file.services.iter().flat_map(move |service| {
            service
                .methods
                .iter()
                .map(move |method| format!("/{}.{}/{}", file.package, service.name, method.name))
        })
    });
    paths.collect()
}

#[test]
fn every_method_that_is_served_has_a_row_and_every_row_a_method() {
    let mut served = methods(coalloc_proto::DESCRIPTORS);
    served.extend(methods(tonic_health::pb::FILE_DESCRIPTOR_SET));
    served.extend(methods(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET));
    served.extend(methods(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET));
    served.sort_unstable();
    assert!(served.len() > 30, "{served:?}");
    let rows: Vec<&str> = ROWS.iter().map(|(path, _)| *path).collect();
    assert_eq!(rows, served);
}
