//! Keys for tests and benches, made by OpenSSL, and tokens that are signed by them. All of them are public.
//!
//! Left out: keys for anything else. Nobody may use these where it matters who somebody is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::crypto::sign;
use jsonwebtoken::{Algorithm, EncodingKey};

/// A pair of keys and the algorithm by which it signs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TestKey {
    /// The algorithm's name.
    pub(crate) name: &'static str,
    algorithm: Algorithm,
    /// The members of the public key that are numbers.
    pub(crate) public: &'static str,
    /// PKCS #8, or PKCS #1 for RSA, in base64url.
    private: &'static str,
}

impl TestKey {
    /// The key as a JSON Web Key of this name.
    pub(crate) fn jwk(&self, id: &str) -> String {
        format!(r#"{{"kid": "{id}", "alg": "{}", "use": "sig", {}}}"#, self.name, self.public)
    }

    /// A token of these parts, whatever they say, signed by this key.
    pub(crate) fn token(&self, header: &str, payload: &str) -> String {
        let message = unsigned(header, payload);
        let der = URL_SAFE_NO_PAD.decode(self.private).unwrap();
        let key = match self.algorithm {
            Algorithm::EdDSA => EncodingKey::from_ed_der(&der),
            Algorithm::ES256 | Algorithm::ES384 => EncodingKey::from_ec_der(&der),
            _ => EncodingKey::from_rsa_der(&der),
        };
        let signature = sign(message.as_bytes(), &key, self.algorithm).unwrap();
        format!("{message}.{signature}")
    }

    /// The header of a token that this key signs under this name.
    pub(crate) fn header(&self, id: &str) -> String {
        format!(r#"{{"alg": "{}", "typ": "JWT", "kid": "{id}"}}"#, self.name)
    }
}

/// The first two parts of a token.
pub(crate) fn unsigned(header: &str, payload: &str) -> String {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}", encode(header), encode(payload))
}

/// A token that is signed by the bytes of a public key as a secret.
pub(crate) fn signed_by_secret(header: &str, payload: &str, secret: &[u8]) -> String {
    let message = unsigned(header, payload);
    let key = EncodingKey::from_secret(secret);
    let signature = sign(message.as_bytes(), &key, Algorithm::HS256).unwrap();
    format!("{message}.{signature}")
}

/// A set of these keys.
pub(crate) fn key_set(keys: &[String]) -> String {
    format!(r#"{{"keys": [{}]}}"#, keys.join(", "))
}

/// An Ed25519 key.
pub(crate) const ED: TestKey = TestKey {
    name: "EdDSA",
    algorithm: Algorithm::EdDSA,
    public: "\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"wmUBGpK-O6r4R7KUJd8H5cMuMgRurolAdEjp6Lc\
     DMiw\"",
    private: "MC4CAQAwBQYDK2VwBCIEIG3hVsWRFlA-LMxM1X7PQ7neMSWRVY8_PKaVHTGq3F6N",
};
/// Another one.
pub(crate) const ED_OTHER: TestKey = TestKey {
    name: "EdDSA",
    algorithm: Algorithm::EdDSA,
    public: "\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"sqb8aEKbyUpYkai8MkAKMY6sTW9r2eTH1ji1JjJ\
     7U7o\"",
    private: "MC4CAQAwBQYDK2VwBCIEIAByaDmfm1mtirdn67TCBm7sCkL1uF0HhI3Z3tDHY1mO",
};
/// A key on P-256.
pub(crate) const P256: TestKey = TestKey {
    name: "ES256",
    algorithm: Algorithm::ES256,
    public: "\"kty\": \"EC\", \"crv\": \"P-256\", \"x\": \"lVAgdiPWnQGDpvKryZcmWou472-3JBpkhySNpMCX3a\
     s\", \"y\": \"CKNK2Tq_MU66968z_0TkC6pTZ7Wrp4GhRZa-OMAvsJ0\"",
    private: "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgiFda1_mfM3b_FvOKHpjUJFr-T_LyZH_geYRB73-\
     Q3tKhRANCAASVUCB2I9adAYOm8qvJlyZai7jvb7ckGmSHJI2kwJfdqwijStk6vzFOuvevM_9E5AuqU2e1q6eBoUW\
     WvjjAL7Cd",
};
/// A key on P-384.
pub(crate) const P384: TestKey = TestKey {
    name: "ES384",
    algorithm: Algorithm::ES384,
    public: "\"kty\": \"EC\", \"crv\": \"P-384\", \"x\": \"A4PltIawsLUbgOSIbl7oLA1Pp5d6806JU_sBumbNQz\
     RY4R5-UD1iCgL78KNtyIJi\", \"y\": \"semIBgvfR6OgIbcHgrw7-8itdqMJlUrz0w9fvE1Q6yKvjY8ZYTfRY\
     XoKfZkLmZ3J\"",
    private: "MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDXSaZAk1vP7-\
     SJu1UrIkYZxhR6S29MREKuTq2sWvAJOpD2x0dmHSZrUIAkMaq1RCehZANiAAQDg-W0hrCwtRuA5IhuXugsDU-\
     nl3rzTolT-wG6Zs1DNFjhHn5QPWIKAvvwo23IgmKx6YgGC99Ho6AhtweCvDv7yK12owmVSvPTD1-8TVDrIq-\
     NjxlhN9Fhegp9mQuZnck",
};
/// An RSA key of 2048 bits.
pub(crate) const RSA: TestKey = TestKey {
    name: "RS256",
    algorithm: Algorithm::RS256,
    public: "\"kty\": \"RSA\", \"n\": \"tdRVA16mtjLpZpH6a_y1D4W_k9ZsorcZBhtPcg3VU3gY9WKthCVWhdaY1J56A\
     WAKIBbVpCPKBkBajerVvp5Nchwx_YNBtoi1rl6UiN0A44RTwsiTVHJ6IqUIFG6CxwF1kxPBEFxrBQV__Su2n9DU3\
     PkVRRqIndfndgp-SXcn0-ho87zBWRlZJ9KFyo-TeOplQ8KtTl60HSzAh9700YbYyncYjtwzUL3Yu5AXWKu4pXM0n\
     0-dCjayMwoadNw1rFzv2osmMYHp9oRYEPkl2SIf0H7LaRe_zwPorzh79k4ipusSXWyP52vCXRB-kheUd1OYLsKB7\
     JJ2mdgOpyq3_VRMVQ\", \"e\": \"AQAB\"",
    private: "MIIEowIBAAKCAQEAtdRVA16mtjLpZpH6a_y1D4W_k9ZsorcZBhtPcg3VU3gY9WKthCVWhdaY1J56AWAKIBbVpCPK\
     BkBajerVvp5Nchwx_YNBtoi1rl6UiN0A44RTwsiTVHJ6IqUIFG6CxwF1kxPBEFxrBQV__Su2n9DU3PkVRRqIndfn\
     dgp-SXcn0-ho87zBWRlZJ9KFyo-TeOplQ8KtTl60HSzAh9700YbYyncYjtwzUL3Yu5AXWKu4pXM0n0-\
     dCjayMwoadNw1rFzv2osmMYHp9oRYEPkl2SIf0H7LaRe_zwPorzh79k4ipusSXWyP52vCXRB-kheUd1OYLsKB7JJ\
     2mdgOpyq3_VRMVQIDAQABAoIBACqtZvPGxkXq_rXUqwyoEH5Pc_cY48AwThcNF3FLdmfkPyVvTw8-\
     bUe2JgJ3nObQOigse-IOBWfAuJBpT1hxkvdmz0PzyBt2DICcEexqxP_hygAksFHomaqihho3kwnvGX_XKeAzdOoF\
     j7QmS7PIogGok_m3f9vedmUSEvCe31IA6v4zjkTDKDZ3NfastRj41eu1v_9t1uakmNDS7Wp-\
     JvB3X1ZihHjGtLVQVu4UIxUTMkebc8ciUDSUouT6eIEjh0qexqcG56U-tUSH-GjccRbDbllhwBtR0B6O8sBQ0Gb3\
     7N9EH0TwzakRCGRH37K_ssJudpdlZ64a5iGhnbm6rQECgYEA_MGl9v29BNQ0DNzzEZ7i3pFALsf2rlNPK2TvoFA3\
     hTqcMLZIb_FuYSmiErASliBM17QHSaZRNFTlP5X43mo7yQQQUgCV-\
     VMH1MOFS4tfrjCCZaaQWTImfmaE5ljKA2LOYU-dLd4myk9M5DcmgqMflrLqhFM7PB7FoASlEO2HV1UCgYEAuCms5\
     xXAD3MJjDCOr2qAGnDcPn1jhx0useZ4-\
     xpFPw5rtR6OsqmWXVhe5G1uyhHYdznU38Ksn2AJoM6Y5AG8F0dZOAZXOB69TEpun7IURrEqNVutHgIoMgNzYF8RZ\
     r7Mux6YHdiwRjrtw26jTKACeBW1ctgP_Aq3fkhS2GFfIQECgYEA9pL7k26JvXI-\
     rOXHgsMb08Cjen-82OeQ7mZzllNrNl-tC6BoHjzLT6JL6Cs4lphAHpYUHfdQdNr1IgjuVhwQ4tNCEJ1dsXMcyqVL\
     Hh2DY-\
     0S6JOLcliIUPs2X3jy6kazyx7d2WdFNEwUWPasbPkx0dQNELYZrVbfuHGPjmoKhFkCgYA02JCrBwzD4ijdN5naMF\
     9uNvCcZfLHdNJPbmlM9O7l90dlA83C6vMg-hjQx65BAfnxzICPbReH7FEW-fHZi73jmC-76eXhTsDXQYyY-sritj\
     f8c8Armkbagy76eo1NxHaPQ2o3NlTu8j4EFJ17gXbz6pbUy7daheC9thc_zEE2AQKBgElGQZK5j8xmMPrKxoiTJ_\
     gWB6SQNy5zDRtvDxQ9k2TJsfTzeVLhh5ML_VUdO-zsADRDB8pQKQ4kuWkq4y4sw8tNu1LIf5bQ_eM6h8GCg-\
     sIk_uUhozre77jzOXWGgkYizk1XpB5MpyI8hIzQDcGO1T9VqwLzkNcxECQVhjqI8tm",
};
/// The same key for PS256.
pub(crate) const RSA_PSS: TestKey = TestKey { name: "PS256", algorithm: Algorithm::PS256, ..RSA };
/// All keys, one for each algorithm.
pub(crate) const ALL: [TestKey; 5] = [ED, P256, P384, RSA, RSA_PSS];
/// The public part of an RSA key of 1024 bits.
pub(crate) const RSA_1024: &str = "\
     \"kty\": \"RSA\", \"n\": \"zWRemJH4Oe1dkGOvLaFsIb8qFl6Dh0udocjGqByWCvkMVj0qBc30pRGcYaZk_\
     2FcfxSO8MAHh59rvxl5GIJxv6tD5HmvyrIMeGBOR8MV2yTF0q6rbvI28kRsZWxJjuJPbeV-qXwjXUf9tXOKnA80u\
     nKB2XMr3mjhWCWC_9kzFdk\", \"e\": \"AQAB\"";
/// The same of 4104 bits.
pub(crate) const RSA_4104: &str = "\
     \"kty\": \"RSA\", \"n\": \"sBNaUt-qSzffQjJVt_mcbk-81FomuA85gYZ9FCYDCh3m0hpLrRB1KoP97msAO\
     qTEgeUNKovXgupZc5PQ2BEIuHimhcrx6_-A9EapHIfaSnIUnhB-gZNF9ZvOWf6g9ecbfyAngXn2wq1M7svIKTGuB\
     2ezG18SZKSuwmwShhpQVdz9ZUqbXZQecpl3M4QAhVBmzFh98DurFgUkMoB9G7x4_4DWqyopknHiP6yR0mBEptAkM\
     KG3YONDRRJRg45zTyfSFKRPMIJdeJrB4kiLDmbRMW6c-2RGOJbsKulIY1nD-JO5L9wfJ0b9GN-vC9pDuerdNgJkD\
     AfBWkrINAecYiDfbGEj1cxGFcMsWxyYUrT14K6yzUPxuwkQKUM-NCgSaK4Wvx8igEP-QIgLSG46nWlKTHTmijIjX\
     n504M_rs5RNQKkgP6VEcJSsb_bFGCUKOAA44ssmUN4Z3PoxpMLEwcWiYEWlgSs_oOpfhJjr8tbHTyvrRw836mqmG\
     fqhdcPLx1zoRltmSlM1uXOigapQRme0nYRDPxNweu0CNwoO6HQSRws0moFR4-6hRuOH8MBcgmyqhcEwsGX4QhsLP\
     1TaLVWA1fEa8sWbzJqiX4s3JqL2mSw-gi_L2pwJ3ukLWC8CQw_vcp8a68DJNKm8ernHMbPs4GKcXGHJSNODujMvB\
     1LqhwVr\", \"e\": \"AQAB\"";
/// What OpenSSL has signed with [`ALL`], in that order, for keys named ed, p256, p384, rsa, pss: user alice of
/// `https://login.north.example`, for `coalloc`, from 1795219200 to 1795222800.
pub(crate) const BY_OPENSSL: [&str; 5] = [
    "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCIsImtpZCI6ImVkIn0.eyJpc3MiOiJodHRwczovL2xvZ2luLm5vcnRo\
     LmV4YW1wbGUiLCJhdWQiOiJjb2FsbG9jIiwic3ViIjoiYWxpY2UiLCJpYXQiOjE3OTUyMTkyMDAsImV4cCI6MTc5\
     NTIyMjgwMH0.hKVeBD8GRftSv4DmwfImLWpI0Q_ceMRcanlsy1sCzQojucl4klQag0PKJo29H_CwyjiJTts4mqPi\
     OYxBnhpHCg",
    "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InAyNTYifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLm5vc\
     nRoLmV4YW1wbGUiLCJhdWQiOiJjb2FsbG9jIiwic3ViIjoiYWxpY2UiLCJpYXQiOjE3OTUyMTkyMDAsImV4cCI6M\
     Tc5NTIyMjgwMH0.Dg4dW-9YwU3y9phW-ujz5fFUNkC_fYWC5WyfZquNae_7GYsiE-\
     TRXhVxHOfYGwjISqFm3BVQxTIFtPESQvH_Zg",
    "eyJhbGciOiJFUzM4NCIsInR5cCI6IkpXVCIsImtpZCI6InAzODQifQ.eyJpc3MiOiJodHRwczovL2xvZ2luLm5vc\
     nRoLmV4YW1wbGUiLCJhdWQiOiJjb2FsbG9jIiwic3ViIjoiYWxpY2UiLCJpYXQiOjE3OTUyMTkyMDAsImV4cCI6M\
     Tc5NTIyMjgwMH0.l9eAfH8BWjaKzj7vL0lKd2oChYJF-01WEKk21lfLTNiEfstJIq-\
     ZSC77iRWW00BnRZGvAUHyzzpXe5PbD9LU4XtqZoNFbIGjJHMFFeYQqXRraw2priPmTyxqOubJnR8U",
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLm5vcnR\
     oLmV4YW1wbGUiLCJhdWQiOiJjb2FsbG9jIiwic3ViIjoiYWxpY2UiLCJpYXQiOjE3OTUyMTkyMDAsImV4cCI6MTc\
     5NTIyMjgwMH0.ec-cuWs27YvbQVh3i3kmOFaqVgxjkuhyogiRo2mbb9nrSTJ9eUEOQQdgM6VRN4TwdFHLa4Rjt6o\
     0Zxu-R2BbJnrY0PmsvqxvubUMYiUD6r2x-\
     Nm0XKYZKQL1Z3RIaaLlwn3NN68BNeBE3j3R7iyrlqxWRnJTTMExlvA_tCr9KXYoAud_oj5pm-\
     05Ajq44iWiwjYWvlCoRX0JGAAJcDrvD7xzPZSVG3FQqXjQFWVqjmM8vvanZCexC6SvmWF2uK2J4hierk9GI5kgsr\
     iC67bK2GmyTz8xoWk3tuCbrZdDqOdkN7AhcDVCLXuZP6J9bhqt-VO2nBW0Jk20u-xiMEqEWQ",
    "eyJhbGciOiJQUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6InBzcyJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLm5vcnR\
     oLmV4YW1wbGUiLCJhdWQiOiJjb2FsbG9jIiwic3ViIjoiYWxpY2UiLCJpYXQiOjE3OTUyMTkyMDAsImV4cCI6MTc\
     5NTIyMjgwMH0.eqzxATjnGBJTK1cAaRhEBDlDKphw88T2BzExzBRFuulY6oKZ6gVN3sZSYLuTkib-ChfTDEChK0P\
     -zfKsuzLic95qiGnseu26QABcGHLcWCO599Y7RenWLrw7A8PY_7927LXPuX8zXMs1W7stIKKLHRR8NOkx9ysq2BN\
     VqwqdBg2Jf7vQafCmhnEeJjiEFW-\
     Y19q0iuvJzkHvcZ8iJg4vP_hraYqcE3wDrF_M7DHT7GATgR3wan7OEqKTTMoPfvCiyYbIBnIdfpZKBBdgvcCojAg\
     53pckuoPDK9F0Du8-IWyXN0bgG7xN6MUletMECwy_DEJHIYnbyye18bX1Af1phQ",
];
