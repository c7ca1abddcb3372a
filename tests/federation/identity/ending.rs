//! Certificates that end soon: `coalloc health` warns of those of the daemon that is asked, of its resource managers, and
//! of whoever asks, before anybody is shut out.

use std::process::Command;

use coalloc_common::Role;

use super::world::TlsWorld;
use crate::harness::eventually;

/// What `coalloc health` says of the coordinator, as whoever has the identity in a folder.
fn health(world: &TlsWorld, stem: &str) -> String {
    health_of(world, "grc", stem)
}

fn health_of(world: &TlsWorld, daemon: &str, stem: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(["health", &world.address(daemon), "--identity"]).arg(world.folder(stem));
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_warns_of_every_certificate_in_the_last_third_of_its_life() {
    let mut world = TlsWorld::start().await;
    let alice = ("grid", Role::User, "alice", "alice");
    world.who("grid", Role::Operator, "olga");
    let fresh = health(&world, "grid-operator-olga");
    assert_eq!(fresh, format!("{}  serving\n", world.address("grc")));
    for (domain, role, name, stem) in [
        alice,
        ("grid", Role::Coordinator, "grc", "grc"),
        ("south", Role::ResourceManager, "crm-A", "crm-A"),
    ] {
        world.issue_near_its_end(domain, role, name, stem);
    }
    for daemon in ["crm-A", "grc"] {
        world.federation.stop(daemon);
        world.federation.spawn(daemon);
    }
    let all = "serving, but its certificate ends in 2 days: less than a third of its life is left; \
               the certificate of crm-A ends in 2 days: less than a third of its life is left";
    let yours = "spiffe://grid/coalloc/user/alice  your certificate ends in 2 days: less than a \
                 third of its life is left";
    let expected = format!("{}  {all}\n{yours}\n", world.address("grc"));
    let listens = async || {
        let address = world.address("grc");
        tokio::net::TcpStream::connect(address).await.is_ok() && health(&world, "alice") == expected
    };
    eventually("all three are told", listens).await;
    // Whoever renews its certificate is not warned any more, without a restart.
    world.renew("grc");
    let renewed = "serving, but the certificate of crm-A ends";
    let told = async || health(&world, "grid-operator-olga").contains(renewed);
    eventually("the renewed one is not told", told).await;
}

/// A probe in a container asks as the daemon itself, every few seconds. That is no reason for lines in the daemon's log.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_asks_itself_is_denied_nothing() {
    let world = TlsWorld::start().await;
    let denied = |daemon: &str| world.federation.log(daemon).contains("denied");
    for daemon in ["grc", "crm-A"] {
        let serving = format!("{}  serving\n", world.address(daemon));
        assert_eq!(health_of(&world, daemon, daemon), serving);
        assert!(!denied(daemon), "{}", world.federation.log(daemon));
    }
    // Another daemon asks for more than it may have, and that is in the log before it is answered.
    health(&world, "crm-A");
    assert!(denied("grc"), "{}", world.federation.log("grc"));
}
