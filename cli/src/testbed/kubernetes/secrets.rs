//! `secrets.yaml`: the identities of the folder as Secrets, one for each daemon. The operator's identity does not go to the
//! cluster.
//!
//! A Secret has no folders, so a file `trust/DOMAIN.pem` has the key `trust.DOMAIN.pem` there; [`mounted`] says where the
//! pod finds it. All files of an identity are in one Secret, because a pod sees a new version of a Secret whole.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::manifest::head;
use super::{BETWEEN, Plan, SECRETS_FILE};
use crate::kit::authority::folder::{CERTIFICATE, KEY, TRUST};
use crate::kit::authority::write_for_owner;
use crate::kit::certificates::IDENTITIES;
use crate::kit::exit::Failure;

/// The files of a daemon's identity: the key in the Secret, and the path in the folder of the identity.
pub(super) fn mounted(plan: &Plan) -> Vec<(String, String)> {
    let mut files =
        vec![(CERTIFICATE.to_owned(), CERTIFICATE.to_owned()), (KEY.to_owned(), KEY.to_owned())];
    for domain in &plan.trusted {
        for name in [format!("{domain}.pem"), format!("{domain}.crl.pem")] {
            files.push((format!("{TRUST}.{name}"), format!("{TRUST}/{name}")));
        }
    }
    files
}

/// The name of a daemon's Secret.
pub(super) fn name(service: &str) -> String {
    format!("{service}-identity")
}

/// Writes `secrets.yaml`, which only its owner can read.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn write(plan: &Plan, folder: &Path) -> Result<(), Failure> {
    let mut secrets = Vec::new();
    for pod in plan.pods() {
        let mut text = head("v1", "Secret", &name(pod.service), plan, pod);
        text += "type: Opaque\ndata:\n";
        for (key, file) in mounted(plan) {
            let path = folder.join(IDENTITIES).join(pod.service).join(file);
            let bytes = std::fs::read(&path)
                .map_err(|error| Failure::internal(format!("{}: {error}", path.display())))?;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {key}: {}", STANDARD.encode(bytes));
        }
        secrets.push(text);
    }
    let comment = "# The keys of the daemons. Do not commit this file.\n\
                   # Written by `coalloc kubernetes`, which renews them when it runs again.\n";
    let text = comment.to_owned() + &secrets.join(BETWEEN);
    Ok(write_for_owner(folder, SECRETS_FILE, &text)?)
}
