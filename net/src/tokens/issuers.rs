//! The issuers that a coordinator believes, as its configuration names them.
//!
//! Each issuer speaks for the users of one domain. Two issuers may speak for the same domain; the same subject is then
//! the same user, whichever of them it comes from. Left out: when the files are read again (whoever owns
//! [`TokenVerifier`](super::TokenVerifier) does that). Source: `IdentitySettings.token_issuers` in `files.proto`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, TrustDomain, limits};
use coalloc_proto::v1;

use super::error::quoted;
use super::keys::KeySet;

/// The field of the issuers in a daemon's configuration.
const FIELD: &str = "daemon.identity.token_issuers";

/// Somebody who issues tokens.
#[derive(Debug)]
pub(super) struct Issuer {
    /// `iss` of its tokens.
    pub(super) name: Arc<str>,
    /// What has to be in `aud` of its tokens.
    pub(super) audience: String,
    /// The domain of its users; `None` for the coordinator's own.
    pub(super) domain: Option<TrustDomain>,
    /// Its public keys.
    pub(super) keys: KeySet,
    /// The file in which the keys are.
    file: PathBuf,
}

/// The issuers that a coordinator believes, with their public keys. Without any, no token is believed.
#[derive(Debug, Default)]
pub struct TokenIssuers(Vec<Issuer>);

impl TokenIssuers {
    /// Checks the settings and reads the files of keys. Relative paths start from `folder`. Users of `own_domain` have
    /// names without a domain.
    ///
    /// # Errors
    /// [`InvalidField`] when a setting or a key is not acceptable, or a file cannot be read. The error names the
    /// field, and for a key also the file and the key's place in it.
    pub fn read(
        own_domain: &TrustDomain,
        settings: &[v1::TokenIssuer],
        folder: &Path,
    ) -> Result<Self, InvalidField> {
        check_range(FIELD, settings.len(), 0..=limits::TOKEN_ISSUERS_MAX, "issuers")?;
        let mut issuers = Self::default();
        for (index, written) in settings.iter().enumerate() {
            let field = |name: &str| format!("{FIELD}[{index}].{name}");
            check_text(&field("issuer"), &written.issuer)?;
            if issuers.named(&written.issuer).is_some() {
                let field = field("issuer");
                return Err(InvalidField::new(field, quoted(&written.issuer), "each issuer once"));
            }
            check_text(&field("audience"), &written.audience)?;
            let domain = check_domain(&field("domain"), own_domain, &written.domain)?;
            let (keys, file) = read_keys(&field("keys"), folder, &written.keys)?;
            issuers.0.push(Issuer {
                name: written.issuer.as_str().into(),
                audience: written.audience.clone(),
                domain,
                keys,
                file,
            });
        }
        Ok(issuers)
    }

    /// The files that were read, in the order of the settings.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|issuer| issuer.file.as_path())
    }

    /// Is no issuer believed?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The issuer of exactly this name.
    pub(super) fn named(&self, name: &str) -> Option<&Issuer> {
        self.0.iter().find(|issuer| *issuer.name == *name)
    }
}

/// Checks the name of an issuer, or an audience.
fn check_text(field: &str, text: &str) -> Result<(), InvalidField> {
    let longest = limits::TOKEN_TEXT_LEN_MAX;
    if (1..=longest).contains(&text.chars().count()) {
        return Ok(());
    }
    Err(InvalidField::new(field, quoted(text), format!("1 to {longest} characters")))
}

/// Checks the domain of an issuer's users; `None` for the own one.
fn check_domain(
    field: &str,
    own: &TrustDomain,
    text: &str,
) -> Result<Option<TrustDomain>, InvalidField> {
    if text.is_empty() || text == own.as_str() {
        return Ok(None);
    }
    let domain = TrustDomain::parse(field, text)?;
    // A slash and a letter have to follow, or no name of a user would fit.
    let longest = limits::NAME_LEN_MAX - 2;
    if text.len() > longest {
        let allowed = format!("at most {longest} characters, so that the names of users fit");
        return Err(InvalidField::new(field, quoted(text), allowed));
    }
    Ok(Some(domain))
}

/// Reads and checks a file of keys.
fn read_keys(field: &str, folder: &Path, written: &str) -> Result<(KeySet, PathBuf), InvalidField> {
    if written.is_empty() {
        return Err(InvalidField::new(field, quoted(written), "a file with a JSON Web Key Set"));
    }
    let file = folder.join(written);
    let most = limits::TOKEN_KEYS_BYTES_MAX;
    let mut text = Vec::new();
    let read = File::open(&file).and_then(|open| open.take(most as u64 + 1).read_to_end(&mut text));
    if let Err(error) = read {
        let allowed = format!("a file that can be read ({}: {error})", file.display());
        return Err(InvalidField::new(field, quoted(written), allowed));
    }
    if text.len() > most {
        let allowed = format!("files of at most {} KiB ({})", most >> 10, file.display());
        return Err(InvalidField::new(field, quoted(written), allowed));
    }
    match KeySet::parse(&text) {
        Ok(keys) => Ok((keys, file)),
        Err(fault) => {
            let allowed = format!("{} ({})", fault.allowed, file.display());
            Err(InvalidField::new(field, fault.value, allowed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_keys::{ED, P256, key_set};
    use super::*;

    fn own() -> TrustDomain {
        TrustDomain::parse("domain", "north.example").unwrap()
    }

    fn issuer(name: &str) -> v1::TokenIssuer {
        v1::TokenIssuer {
            issuer: name.to_owned(),
            audience: "coalloc".to_owned(),
            keys: "keys.json".to_owned(),
            domain: String::new(),
        }
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("keys.json"), key_set(&[ED.jwk("a")])).unwrap();
        folder
    }

    #[track_caller]
    fn refused(settings: &[v1::TokenIssuer], folder: &Path, words: &[&str]) {
        let error = TokenIssuers::read(&own(), settings, folder).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} in {error}");
        }
        assert!(error.len() < 600, "{error}");
    }

    #[test]
    fn settings_are_read_with_paths_from_their_folder() {
        let folder = folder();
        let mut settings = [issuer("https://a"), issuer("https://b"), issuer("https://c")];
        settings[1].domain = "north.example".to_owned();
        settings[2].domain = "south.example".to_owned();
        settings[2].keys = folder.path().join("keys.json").display().to_string();
        let issuers = TokenIssuers::read(&own(), &settings, folder.path()).unwrap();
        let domain = |name| issuers.named(name).unwrap().domain.as_ref().map(TrustDomain::as_str);
        assert_eq!([domain("https://a"), domain("https://b")], [None, None]);
        assert_eq!(domain("https://c"), Some("south.example"));
        assert!(issuers.named("https://A").is_none() && issuers.named("https://a/").is_none());
        assert!(issuers.files().all(|file| file == folder.path().join("keys.json")));
        assert_eq!(issuers.files().count(), 3);
        assert!(TokenIssuers::read(&own(), &[], folder.path()).unwrap().is_empty());
    }

    #[test]
    fn settings_that_are_not_allowed_are_named() {
        let folder = folder();
        let at = |change: fn(&mut v1::TokenIssuer), words: &[&str]| {
            let mut settings = [issuer("https://a"), issuer("https://b")];
            change(&mut settings[1]);
            refused(&settings, folder.path(), words);
        };
        let field = "daemon.identity.token_issuers[1]";
        at(|it| it.issuer.clear(), &[field, ".issuer: \"\"", "1 to 512 characters"]);
        at(|it| it.issuer = "x\u{202e}".repeat(300), &[field, ".issuer", "\\u{202e}", "1 to 512"]);
        at(|it| it.issuer = "https://a".to_owned(), &[field, ".issuer", "each issuer once"]);
        at(|it| it.audience.clear(), &[field, ".audience", "1 to 512 characters"]);
        at(|it| it.audience = "ö".repeat(513), &[field, ".audience", "1 to 512 characters"]);
        at(|it| it.domain = "North".to_owned(), &[field, ".domain: \"North\"", "a-z 0-9"]);
        at(|it| it.domain = "n".repeat(127), &[field, ".domain", "at most 126 characters"]);
        at(|it| it.keys.clear(), &[field, ".keys", "a file with a JSON Web Key Set"]);
        at(|it| it.keys = "none.json".to_owned(), &[field, ".keys: \"none.json\"", "No such file"]);
        at(|it| it.keys = ".".to_owned(), &[field, ".keys: \".\"", "directory"]);
        let many: Vec<_> = (0..17).map(|number| issuer(&format!("https://{number}"))).collect();
        let words = ["daemon.identity.token_issuers: 17", "0 to 16 issuers"];
        refused(&many, folder.path(), &words);
        assert!(TokenIssuers::read(&own(), &many[..16], folder.path()).is_ok());
    }

    #[test]
    fn an_error_in_a_file_names_field_file_and_key() {
        let folder = folder();
        let file = folder.path().join("keys.json");
        let settings = [issuer("https://a")];
        let with = |text: &str, words: &[&str]| {
            std::fs::write(&file, text).unwrap();
            let named = file.display().to_string();
            let field = "daemon.identity.token_issuers[0].keys: ";
            refused(&settings, folder.path(), &[&[field, &named], words].concat());
        };
        let oct = r#"{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256", "kid": "b"}"#;
        with(
            &key_set(&[P256.jwk("a"), oct.into()]),
            &["keys[1] that is a secret", "public keys only"],
        );
        with("{", &["line 1, column 1", "JSON Web Key Set"]);
        with(&" ".repeat((256 << 10) + 1), &["at most 256 KiB"]);
        // As long as allowed.
        let text = key_set(&[ED.jwk("a")]);
        std::fs::write(&file, format!("{text}{}", " ".repeat((256 << 10) - text.len()))).unwrap();
        assert!(TokenIssuers::read(&own(), &settings, folder.path()).is_ok());
    }
}
