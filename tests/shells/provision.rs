//! A reservation is provisioned and deprovisioned: the real daemons with drivers of naive equipment, in simulated time.

use std::time::Duration;

use coalloc_proto::v1;
use tonic::{Code, Status};

use crate::identities::{Party, Protection};
use crate::relocation::{START_S, is_active, now_us, reserve_with, shown, site_of, tell, until};

async fn provision(change_id: &str) -> Result<v1::Reservation, Status> {
    let mut client = Protection::PlainText.coordinator(Party::User);
    let (id, change_id, user) = ("mine".to_owned(), change_id.to_owned(), "user".to_owned());
    let answer = client.provision(v1::ProvisionRequest { id, change_id, user }).await?;
    Ok(answer.into_inner().reservation.unwrap())
}

async fn deprovision(change_id: &str, user: &str) -> Result<v1::Reservation, Status> {
    let mut client = Protection::PlainText.coordinator(Party::User);
    let (id, change_id, user) = ("mine".to_owned(), change_id.to_owned(), user.to_owned());
    let answer = client.deprovision(v1::DeprovisionRequest { id, change_id, user }).await?;
    Ok(answer.into_inner().reservation.unwrap())
}

/// Extends the reservation by a minute, and says nothing of its provision.
async fn extend() -> v1::Reservation {
    let mut client = Protection::PlainText.coordinator(Party::User);
    let mut request = shown().await.request.unwrap();
    request.manual_provision = None;
    request.duration.as_mut().unwrap().seconds += 60;
    let id = "mine".to_owned();
    let change_id = format!("extend-{}", request.duration.unwrap().seconds);
    let request = Some(request);
    let wire = v1::ModifyRequest { id, change_id, request, ..Default::default() };
    client.modify(wire).await.unwrap().into_inner().reservation.unwrap()
}

fn is_done(known: &v1::Reservation) -> bool {
    known.change.as_ref().unwrap().state() == v1::ChangeState::Done
}

#[test]
fn a_user_is_let_in_by_provision_and_out_by_deprovision_and_late_copies_change_nothing() {
    tell("REPAIR_POLICY_NONE", |equipment| async move {
        let made = reserve_with(Some(true)).await;
        let site = &equipment[site_of(&made)];
        tokio::time::sleep(Duration::from_secs(START_S as u64 + 10)).await;
        let known = shown().await;
        assert_eq!(known.state(), v1::ReservationState::Confirmed, "its window has begun");
        assert!(known.equipment_trouble.is_empty(), "{known:#?}");
        assert_eq!(site.in_use(now_us()), Vec::<String>::new());

        let known = provision("in").await.unwrap();
        assert!(is_done(&known) && known.version == 2, "{known:#?}");
        until("active", is_active).await;
        let had = site.in_use(now_us());
        assert_eq!(had.len(), 2);

        // A change of something else leaves the user in, on the same servers.
        let known = extend().await;
        assert!(is_done(&known) && known.version == 3, "{known:#?}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(is_active(&shown().await));
        assert_eq!(site.in_use(now_us()), had);

        let error = deprovision("out", "somebody").await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied, "{error}");
        assert!(is_active(&shown().await));
        let known = deprovision("out", "user").await.unwrap();
        assert!(is_done(&known) && known.version == 4, "{known:#?}");
        assert!(!is_active(&known), "the answer itself says so");
        until("out", |known| !is_active(known)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(site.in_use(now_us()), Vec::<String>::new());

        // A late copy of the first call has its old answer, and no effect.
        let known = provision("in").await.unwrap();
        assert!(is_done(&known) && known.version == 4, "{known:#?}");
        let error = deprovision("in", "user").await.unwrap_err();
        assert_eq!(error.code(), Code::AlreadyExists, "{error}");
        // A change of something else leaves the user out.
        assert!(is_done(&extend().await));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let known = shown().await;
        assert_eq!((known.version, known.state()), (5, v1::ReservationState::Confirmed));
        assert_eq!(site.in_use(now_us()), Vec::<String>::new());

        let known = provision("in again").await.unwrap_err();
        assert_eq!(known.code(), Code::InvalidArgument, "a change id has no spaces: {known}");
        provision("in-again").await.unwrap();
        until("active again", is_active).await;
        assert_eq!(site.in_use(now_us()), had);
        Ok(())
    });
}
