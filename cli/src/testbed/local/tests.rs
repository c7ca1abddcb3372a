//! Checks the compiled-in federation against the numbers of the paper.

use super::*;
use crate::kit::exit::Exit;

#[test]
fn elgl_is_the_papers_environment() {
    let file = elgl().unwrap();
    assert_eq!((file.networks.len(), file.computes.len(), file.exchange_points.len()), (3, 10, 2));
    let sites: Vec<&v1::Site> = file.computes.iter().flat_map(|crm| &crm.sites).collect();
    assert_eq!((sites.len(), sites.iter().map(|site| site.cpus).sum::<u64>()), (10, 232));
    assert!(sites.iter().all(|site| site.unit_value == Some(1)));
    for (domain, cpus) in
        [("N", vec![8, 16, 32, 64]), ("S", vec![8, 16, 32]), ("U", vec![8, 16, 32])]
    {
        let of_domain = file.computes.iter().filter(|crm| crm.domain == domain);
        let found: Vec<u64> = of_domain.flat_map(|crm| &crm.sites).map(|site| site.cpus).collect();
        assert_eq!(found, cpus, "{domain}");
    }
    let paths: Vec<&v1::Path> = file.networks.iter().flat_map(|nrm| &nrm.paths).collect();
    let (outside, inside): (Vec<&v1::Path>, Vec<&v1::Path>) =
        paths.iter().partition(|path| path.b.starts_with('X'));
    // Full meshes of 4, 3 and 3 sites; ten sites have paths to X1, and the sites of N and S also to X2.
    assert_eq!((inside.len(), outside.len()), (6 + 3 + 3, 10 + 7));
    let is = |path: &v1::Path, gbps: u64, value| {
        path.capacity_bps == gbps * 1_000_000_000 && path.unit_value == Some(value)
    };
    assert!(inside.iter().all(|path| is(path, 5, 5)));
    assert!(outside.iter().all(|path| is(path, 10, 3)));
    assert!(!outside.iter().any(|path| path.a.starts_with('U') && path.b == "X2"));
    assert!(paths.iter().all(|path| path.name == format!("{}-{}", path.a, path.b)));
    assert!(paths.iter().all(|path| !path.full_duplex), "a capacity is shared by its directions");
    for network in &file.networks {
        assert!(network.paths.iter().all(|path| path.a.starts_with(&network.domain)));
    }
}

#[test]
fn a_folder_that_is_not_empty_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("grc.ledger"), "").unwrap();
    let failure = Folder::new(Some(folder.path())).err().unwrap();
    assert_eq!(failure.exit, Exit::BadInput);
    assert!(failure.message.contains("is not empty"), "{failure}");
    let new = folder.path().join("a/b");
    assert_eq!(Folder::new(Some(&new)).unwrap().keep(), new);
}
