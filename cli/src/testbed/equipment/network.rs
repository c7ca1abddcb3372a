//! The links of the story, between network namespaces.

use super::{EXCHANGE, PLACES, Place, programs};
use crate::kit::exit::Failure;

/// The file of a namespace with this name.
pub(super) fn file(netns: &str) -> String {
    format!("/run/netns/{netns}")
}

/// Makes the namespaces and all links. They go when the last process that is in them ends.
///
/// # Errors
/// When the system does not make one.
pub(super) async fn lay() -> Result<(), Failure> {
    add_namespace(EXCHANGE).await?;
    for place in &PLACES {
        add_site(place).await?;
    }
    let mut forward = programs::command(Some(EXCHANGE), "sh -c");
    forward.arg("echo 1 > /proc/sys/net/ipv4/ip_forward");
    programs::check(forward).await.map(|_| ())
}

async fn add_namespace(netns: &str) -> Result<(), Failure> {
    run(None, &format!("ip netns add {netns}")).await?;
    run(Some(netns), "ip link set lo up").await
}

/// Adds a site, its link to the exchange, and its management link.
async fn add_site(place: &Place) -> Result<(), Failure> {
    let Place { netns, port, router, data, wire, controller, management, .. } = place;
    add_namespace(netns).await?;
    let (exchange, site) = (Some(EXCHANGE), Some(*netns));
    for (at, words) in [
        (exchange, format!("ip link add {port} type veth peer name data netns {netns}")),
        (exchange, format!("ip address add {router}/24 dev {port}")),
        (exchange, format!("ip link set {port} up")),
        (site, format!("ip address add {data}/24 dev data")),
        (site, "ip link set data up".to_owned()),
        (site, format!("ip route add default via {router}")),
        (None, format!("ip link add {wire} type veth peer name mgmt netns {netns}")),
        (None, format!("ip address add {controller}/24 dev {wire}")),
        (None, format!("ip link set {wire} up")),
        (site, format!("ip address add {management}/24 dev mgmt")),
        (site, "ip link set mgmt up".to_owned()),
    ] {
        run(at, &words).await?;
    }
    Ok(())
}

async fn run(netns: Option<&str>, words: &str) -> Result<(), Failure> {
    programs::check(programs::command(netns, words)).await.map(|_| ())
}
