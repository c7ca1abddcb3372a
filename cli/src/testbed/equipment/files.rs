//! The files of the story, in the form in which an operator would write them: configurations with drivers, jobs, and the
//! request.

use std::path::{Path, PathBuf};

use coalloc_common::Time;
use coalloc_proto::file::{Document, parse};
use coalloc_proto::v1;

use super::enter::JobUser;
use super::site::Site;
use super::{BOOKED_BPS, CAPACITY_BPS, CPUS_EACH, EXCHANGE, PLACES, USER};
use crate::kit::certificates;
use crate::kit::exit::Failure;
use crate::kit::text;
use crate::testbed::local::layout::Post;
use crate::user::offline::Federation;
use crate::user::serve::Kind;

/// Words in braces and what stands for them.
type Words<'a> = [(&'a str, String)];

/// The federation: both clusters and the link.
///
/// # Errors
/// When the file that was compiled in is wrong; the test of this module makes sure that it is not.
pub(super) fn federation() -> Result<v1::FederationFile, Failure> {
    let text = include_str!("federation.yaml").to_owned();
    let document: Document<v1::FederationFile> = parse(Path::new("federation.yaml"), text)?;
    Ok(Federation::of(document)?.file)
}

/// Writes the configurations of the resource managers anew, with drivers.
///
/// # Errors
/// When a file cannot be written.
pub(super) fn write(posts: &mut [Post], sites: &[Site], user: &JobUser) -> Result<(), Failure> {
    let grc = posts.iter().find(|post| post.kind == Kind::Grc).cloned();
    let grc = grc.ok_or_else(|| Failure::internal("no coordinator"))?;
    let [a, b] = &PLACES;
    for post in posts.iter_mut() {
        let mut words = common(post, &grc)?;
        let template = match post.kind {
            Kind::Grc => {
                allow_repair(&post.config)?;
                continue;
            }
            Kind::Nrm => {
                words.extend([
                    ("{capacity}", CAPACITY_BPS.to_string()),
                    ("{netns}", EXCHANGE.to_owned()),
                    ("{port_a}", a.port.to_owned()),
                    ("{port_b}", b.port.to_owned()),
                    ("{data_a}", a.data.to_owned()),
                    ("{data_b}", b.data.to_owned()),
                ]);
                include_str!("nrm.yaml")
            }
            Kind::Crm => {
                let site = sites.iter().find(|site| post.name.ends_with(site.place.name));
                let site = site.ok_or_else(|| Failure::internal("a CRM without a cluster"))?;
                words.extend([
                    ("{site}", site.place.name.to_owned()),
                    ("{cpus}", CPUS_EACH.to_string()),
                    ("{nodes}", site.place.all_nodes().join(", ")),
                    ("{conf}", site.cluster.conf().display().to_string()),
                    ("{unix}", user.name.clone()),
                ]);
                include_str!("crm.yaml")
            }
        };
        let yaml = post.config.with_extension("yaml");
        let json = std::mem::replace(&mut post.config, yaml);
        write_file(&post.config, &filled(template, &words))?;
        std::fs::remove_file(&json)
            .map_err(|error| Failure::internal(format!("{}: {error}", json.display())))?;
    }
    Ok(())
}

/// Lets the coordinator move reservations off equipment that cannot be used.
fn allow_repair(config: &Path) -> Result<(), Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::internal(format!("{}: {error}", config.display()));
    let text = std::fs::read_to_string(config).map_err(|error| wrong(&error))?;
    let mut file: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    file["repair"] = v1::RepairPolicy::Automatic.as_str_name().into();
    write_file(config, &text::json(&file)?)
}

/// The words that the configurations of all resource managers have.
fn common(post: &Post, grc: &Post) -> Result<Vec<(&'static str, String)>, Failure> {
    let identity = |post: &Post| -> (String, String) {
        let own = post.identity.as_ref();
        own.map(|(name, folder)| (name.to_string(), folder.display().to_string()))
            .unwrap_or_default()
    };
    let stem = post.config.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(vec![
        ("{address}", post.address.clone()),
        ("{stem}", stem),
        ("{identity}", identity(post).1),
        ("{operator}", certificates::operator()?.to_string()),
        ("{name}", post.name.clone()),
        ("{user}", USER.to_owned()),
        ("{grc_name}", grc.name.clone()),
        ("{grc_address}", grc.address.clone()),
        ("{grc_identity}", identity(grc).0),
    ])
}

/// A job that waits until it is ended.
pub(super) const WAITING_JOB: &str = "#!/bin/sh\nexec sleep 600\n";

/// Writes the request: all but the spare nodes of both sites, and a rate between them, from an instant on.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_request(folder: &Path, start: Time, seconds: u64) -> Result<PathBuf, Failure> {
    let cpus = PLACES.map(|place| place.nodes.len() as u64 * u64::from(CPUS_EACH));
    let [a, b] = &PLACES;
    let text = format!(
        "# Two nodes of both clusters, and a rate between them.\n\
         sites:\n  \
           - {{name: client, cpus: {}, pinned_to: {}}}\n  \
           - {{name: server, cpus: {}, pinned_to: {}}}\n\
         links:\n  \
           - {{from: client, to: server, bandwidth_bps: {BOOKED_BPS}}}\n\
         earliest_start: {start}\nlatest_start: {start}\nduration: {seconds}s\nuser: {USER}\n",
        cpus[0], a.name, cpus[1], b.name
    );
    let path = folder.join("request.yaml");
    write_file(&path, &text)?;
    Ok(path)
}

/// The script of the job at a site; the one at the first site sends for so many seconds.
pub(super) fn script(index: usize, seconds: u64) -> String {
    let (own, other) = (&PLACES[index], &PLACES[1 - index]);
    let template = if index == 0 { include_str!("client.sh") } else { include_str!("server.sh") };
    let words = [
        ("{site}", own.name.to_owned()),
        ("{own}", own.data.to_owned()),
        ("{other}", other.data.to_owned()),
        ("{seconds}", seconds.to_string()),
    ];
    filled(template, &words)
}

/// Writes a file.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::internal(format!("{}: {error}", path.display())))
}

fn filled(template: &str, words: &Words<'_>) -> String {
    words.iter().fold(template.to_owned(), |text, (word, value)| text.replace(word, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_federation_is_that_of_the_places() {
        let file = federation().unwrap();
        assert_eq!(file.networks[0].paths[0].capacity_bps, CAPACITY_BPS);
        for (compute, place) in file.computes.iter().zip(&PLACES) {
            let site = &compute.sites[0];
            assert_eq!(
                (site.name.as_str(), compute.name.as_str()),
                (place.name, &*format!("crm-{}", place.name))
            );
            let servers = site.servers.as_ref().unwrap();
            assert_eq!(servers.groups[0].names, place.all_nodes());
            assert_eq!(servers.cpus_each, u64::from(CPUS_EACH));
        }
    }

    #[test]
    fn no_word_in_braces_is_left_in_a_job() {
        for index in 0..PLACES.len() {
            assert!(!script(index, 3).contains('{'));
        }
    }
}
