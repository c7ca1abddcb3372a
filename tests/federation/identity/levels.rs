//! Levels of coordinators over real processes: a coordinator of `south` that claims a user of another coordinator is shown
//! and gets its own share, wherever it asks.

use coalloc_common::{Identity, Role, TrustDomain};
use coalloc_net::client::Dialer;
use coalloc_proto::v1::{self, Reason, hold_response::Answer};
use tonic::Code;

use super::code;
use super::world::{TlsWorld, request};
use crate::harness::seconds_from_now;

/// At each resource manager: grc is unlimited, east of `south` may know of 30 percent, and eve is a guest everywhere.
const LEVELS: &str = "service_levels: [{name: staff, share_percent: 100, users: [alice]}, \
                      {name: guests, share_percent: 20, users: [eve]}]\n\
                      coordinator_levels: [{name: grc}, {name: east, best_percent: 30}]\n";

/// The usual configurations, in which east is a coordinator of every resource manager, and site B has ten servers.
fn edit(daemon: &str, text: String) -> String {
    if daemon == "grc" {
        return text;
    }
    let known = "identity: \"spiffe://grid/coalloc/coordinator/grc-2\"}";
    let east = ", {name: east, address: \"127.0.0.1:1\", identity: \"spiffe://south/coalloc/coordinator/east\"}";
    let plain = "{name: B, cpus: 100}";
    let servers = "{name: B, servers: {cpus_each: 10, groups: [{count: 10}]}}";
    let edited = text.replace(known, &format!("{known}{east}")).replace(plain, servers);
    assert_ne!(edited, text);
    edited.replace("profiles: {coordinators: [grc]}", "profiles: {coordinators: [grc, east]}")
        + LEVELS
}

fn window() -> v1::Window {
    v1::Window { start: Some(seconds_from_now(7_200)), end: Some(seconds_from_now(10_800)) }
}

struct LevelWorld {
    world: TlsWorld,
    east: Dialer,
    grc: Dialer,
    window: v1::Window,
    holds: u32,
}

impl LevelWorld {
    async fn start() -> Self {
        let mut world = TlsWorld::start_edited(edit).await;
        let east = world.who("south", Role::Coordinator, "east");
        let grc = world.folder_dialer("grc");
        Self { world, east, grc, window: window(), holds: 0 }
    }

    /// What a query says is free at the first resource of a resource manager.
    async fn free(&self, dialer: &Dialer, rm: &str, user: &str) -> u64 {
        let query = v1::QueryAvailabilityRequest {
            frames: vec![self.window],
            user: user.to_owned(),
            replaces: String::new(),
            ..Default::default()
        };
        let answer = self.world.rm(dialer, rm).query_availability(query).await.unwrap();
        answer.into_inner().frames[0].free[0]
    }

    /// A Hold of east for an amount of a resource, and what is free around it now.
    async fn hold(
        &mut self,
        rm: &str,
        resource: &str,
        user: &str,
        amount: u64,
    ) -> (Answer, Option<v1::ProfileUpdate>) {
        self.holds += 1;
        let order = v1::HoldRequest {
            transaction: format!("east-00000000-{}/1", self.holds),
            coordinator: "east".to_owned(),
            user: user.to_owned(),
            segments: vec![v1::Segment {
                resource: resource.to_owned(),
                amount,
                window: Some(self.window),
                ..v1::Segment::default()
            }],
            ..v1::HoldRequest::default()
        };
        let answer = self.world.rm(&self.east, rm).hold(order).await.unwrap().into_inner();
        (answer.answer.unwrap(), answer.fresh)
    }

    async fn refused(&mut self, rm: &str, resource: &str, user: &str, amount: u64) -> v1::Refusal {
        match self.hold(rm, resource, user, amount).await.0 {
            Answer::Refused(refusal) => refusal,
            Answer::Held(held) => panic!("{held:?}"),
        }
    }

    async fn held(&mut self, rm: &str, resource: &str, user: &str, amount: u64) -> u64 {
        match self.hold(rm, resource, user, amount).await {
            (Answer::Held(_), Some(fresh)) => least(&fresh),
            other => panic!("{other:?}"),
        }
    }

    /// What a snapshot of the profiles of a resource manager says is free.
    async fn watched(&self, dialer: &Dialer, coordinator: &str, rm: &str) -> u64 {
        let request = v1::WatchProfilesRequest {
            coordinator: coordinator.to_owned(),
            ..v1::WatchProfilesRequest::default()
        };
        let answer = self.world.rm(dialer, rm).watch_profiles(request).await.unwrap();
        let first = answer.into_inner().message().await.unwrap().unwrap();
        least(&first.update.unwrap())
    }

    /// The idle servers of site B that a coordinator finds, page by page.
    async fn found(&self, dialer: &Dialer, coordinator: &str, page: u32) -> Vec<String> {
        let (mut names, mut page_token) = (Vec::new(), String::new());
        loop {
            let search = v1::FindServersRequest {
                coordinator: coordinator.to_owned(),
                window: Some(self.window),
                page_size: Some(page),
                page_token: std::mem::take(&mut page_token),
                ..v1::FindServersRequest::default()
            };
            let answer = self.world.rm(dialer, "crm-B").find_servers(search).await.unwrap();
            let answer = answer.into_inner();
            names.extend(answer.servers.into_iter().map(|server| server.name));
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                return names;
            }
        }
    }
}

/// The least that an update says is free anywhere.
fn least(update: &v1::ProfileUpdate) -> u64 {
    update.parts.iter().flat_map(|part| &part.free).copied().min().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_of_south_that_claims_alice_of_grc_is_shown_and_gets_its_share() {
    let mut it = LevelWorld::start().await;
    let south = TrustDomain::parse("domain", "south").unwrap();
    let east = Identity::new("name", south, Role::Coordinator, "east").unwrap();
    assert_eq!(it.east.identity().unwrap().identity(), east);
    let otto = it.world.who("south", Role::Operator, "otto");
    let (of_east, of_grc) = (it.east.clone(), it.grc.clone());
    // Alice, whom east claims, has all at grc. Eve is a guest at both.
    for (dialer, user, share) in [
        (&of_grc, "alice", 100),
        (&of_grc, "eve", 20),
        (&of_east, "alice", 30),
        (&of_east, "eve", 20),
        (&otto, "alice", 100),
    ] {
        assert_eq!(it.free(dialer, "crm-A", user).await, share, "{dialer:?} {user}");
        assert_eq!(it.free(dialer, "nrm", user).await, share * 10_000_000, "{dialer:?} {user}");
    }
    // What it may not know of is not free for it, and no refusal says that there is more.
    for amount in [31, 90, 100] {
        let refusal = it.refused("crm-A", "A", "alice", amount).await;
        assert_eq!(refusal.reason(), Reason::InsufficientCapacity, "{refusal:?}");
        assert_eq!((refusal.requested, refusal.available), (Some(amount), Some(30)));
        assert!(refusal.detail.contains("30 CPUs free for coordinator east"), "{refusal:?}");
    }
    let refusal = it.refused("crm-A", "A", "eve", 21).await;
    assert_eq!((refusal.reason(), refusal.available), (Reason::ServiceLevel, Some(20)));
    // It gets its share, and is told what is left for it: 30 percent of 70.
    assert_eq!(it.held("crm-A", "A", "alice", 30).await, 21);
    assert_eq!(it.free(&of_east, "crm-A", "alice").await, 21);
    assert_eq!(it.free(&of_grc, "crm-A", "alice").await, 70);
    // Under grc's name it is not let through at all, so no claim of a coordinator helps either.
    let order = v1::HoldRequest {
        transaction: "grc-00000000-1/1".to_owned(),
        coordinator: "grc".to_owned(),
        user: "alice".to_owned(),
        ..v1::HoldRequest::default()
    };
    assert_eq!(code(it.world.rm(&of_east, "crm-A").hold(order).await), Code::PermissionDenied);
    // The honest coordinator does not notice.
    let alice = it.world.who("grid", Role::User, "alice");
    let mut asked = request("r1", "alice");
    let wanted = asked.request.as_mut().unwrap();
    wanted.sites[0].cpus = 70;
    let reserved = it.world.grc(&alice).reserve(asked).await.unwrap().into_inner();
    let reservation = reserved.reservation.unwrap();
    assert_eq!(reservation.state(), v1::ReservationState::Confirmed, "{reservation:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_and_searches_of_servers_disclose_the_share_of_the_coordinator() {
    let mut it = LevelWorld::start().await;
    let (of_east, of_grc) = (it.east.clone(), it.grc.clone());
    assert_eq!(it.watched(&of_grc, "grc", "crm-A").await, 100);
    assert_eq!(it.watched(&of_east, "east", "crm-A").await, 30);
    // Three of ten idle servers, whatever the size of a page, and whoever stays is the same.
    let all = it.found(&of_grc, "grc", 100).await;
    assert_eq!(all.len(), 10, "{all:?}");
    for page in [1, 2, 100] {
        assert_eq!(it.found(&of_east, "east", page).await, all[..3], "pages of {page}");
    }
    assert_eq!(it.free(&of_east, "crm-B", "alice").await, 30);
    let refusal = it.refused("crm-B", "B", "alice", 40).await;
    assert_eq!((refusal.reason(), refusal.available), (Reason::InsufficientCapacity, Some(30)));
    assert!(!refusal.detail.contains("100"), "{refusal:?}");
    assert_eq!(it.held("crm-B", "B", "alice", 30).await, 21);
    // Seven servers are idle: 30 percent of these are two whole ones.
    assert_eq!(it.free(&of_east, "crm-B", "alice").await, 20);
    assert_eq!(it.found(&of_east, "east", 100).await.len(), 2);
    assert_eq!(it.found(&of_grc, "grc", 100).await.len(), 7);
}
