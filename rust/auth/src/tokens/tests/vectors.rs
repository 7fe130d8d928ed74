//! The examples of RFC 7515 (appendix A), RFC 7520 (section 4) and RFC 8037 (appendix A).

use super::super::jwt::authentic;
use super::*;

const JOE: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

const FRODO: &str = "SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aG\
                     Ugcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1p\
                     Z2h0IGJlIHN3ZXB0IG9mZiB0by4";

const BILBO: &str = r#"{"kty":"RSA","kid":"bilbo.baggins@hobbiton.example","use":"sig","n":"n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw","e":"AQAB"}"#;

struct Vector {
    name: &'static str,
    algorithm: Algorithm,
    key: &'static str,
    header: &'static str,
    payload: &'static str,
    signature: &'static str,
}

const VECTORS: [Vector; 7] = [
    Vector {
        name: "RFC 7515, A.1",
        algorithm: Algorithm::Hs256,
        key: r#"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}"#,
        header: "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
        payload: JOE,
        signature: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    },
    Vector {
        name: "RFC 7515, A.2",
        algorithm: Algorithm::Rs256,
        key: r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#,
        header: "eyJhbGciOiJSUzI1NiJ9",
        payload: JOE,
        signature: "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds\
                    9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRm\
                    B_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98r\
                    qVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
    },
    Vector {
        name: "RFC 7515, A.3",
        algorithm: Algorithm::Es256,
        key: r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
        header: "eyJhbGciOiJFUzI1NiJ9",
        payload: JOE,
        signature: "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    },
    Vector {
        name: "RFC 7520, 4.1",
        algorithm: Algorithm::Rs256,
        key: BILBO,
        header: "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9",
        payload: FRODO,
        signature: "MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83xuglII7PNDi\
                    84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPoc\
                    SadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJ\
                    ushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg",
    },
    Vector {
        name: "RFC 7520, 4.2",
        algorithm: Algorithm::Ps384,
        key: BILBO,
        header: "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9",
        payload: FRODO,
        signature: "cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TTB5dDDIt\
                    llVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz\
                    0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho\
                    0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw",
    },
    Vector {
        name: "RFC 7520, 4.4",
        algorithm: Algorithm::Hs256,
        key: r#"{"kty":"oct","kid":"018c0ae5-4d9b-471b-bfd6-eef314bc7037","use":"sig","alg":"HS256","k":"hJtXIZ2uSN5kbQfbtTNWbpdmhkV8FJG-Onbc6mxCcYg"}"#,
        header: "eyJhbGciOiJIUzI1NiIsImtpZCI6IjAxOGMwYWU1LTRkOWItNDcxYi1iZmQ2LWVlZjMxNGJjNzAzNyJ9",
        payload: FRODO,
        signature: "s0h6KThzkfBBBkLspW1h84VsJZFTsPPqMDA7g1Md7p0",
    },
    Vector {
        name: "RFC 8037, A.4",
        algorithm: Algorithm::EdDsa,
        key: r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
        header: "eyJhbGciOiJFZERTQSJ9",
        payload: "RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
        signature: "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    },
];

impl Vector {
    fn keys(&self) -> Keys {
        Keys::new(vec![read_key(self.key.as_bytes(), &[self.algorithm]).expect(self.name)])
    }

    fn token(&self) -> String {
        [self.header, self.payload, self.signature].join(".")
    }

    fn is_authentic(&self, token: &[u8]) -> bool {
        authentic(&self.keys(), &claims(), token).is_ok()
    }
}

#[test]
fn the_examples_of_the_standards_are_authentic() {
    for vector in &VECTORS {
        assert!(vector.is_authentic(vector.token().as_bytes()), "{}", vector.name);
    }
}

#[test]
fn nothing_else_of_the_examples_is() {
    for vector in &VECTORS {
        let (keys, claims, token) = (vector.keys(), claims(), vector.token().into_bytes());
        let refused = |token: &[u8], what: &str| {
            let result = authentic(&keys, &claims, token);
            assert!(result.is_err(), "{}: {what} is accepted", vector.name);
        };
        for end in 0..token.len() {
            refused(&token[..end], &format!("its first {end} bytes"));
        }
        for at in 0..token.len() {
            for bit in 0..8 {
                let mut flipped = token.clone();
                flipped[at] ^= 1 << bit;
                refused(&flipped, &format!("it with bit {bit} of byte {at} flipped"));
            }
        }
        for behind in [".", "=", "A", "AAAA", "\n", ".e30"] {
            refused(&[&token, behind.as_bytes()].concat(), &format!("it with {behind:?} behind it"));
        }
    }
}

#[test]
fn an_example_is_authentic_by_its_own_key_and_algorithm_alone() {
    for vector in &VECTORS {
        for other in
            VECTORS.iter().filter(|other| other.key != vector.key || other.algorithm != vector.algorithm)
        {
            assert!(!other.is_authentic(vector.token().as_bytes()), "{} by {}", vector.name, other.name);
        }
    }
}

#[test]
fn the_unsecured_example_is_refused() {
    // RFC 7515, appendix A.5.
    let token = format!("eyJhbGciOiJub25lIn0.{JOE}.");
    for vector in &VECTORS {
        let error = authentic(&vector.keys(), &claims(), token.as_bytes()).unwrap_err();
        assert_eq!(error.code(), Code::TokenWrongAlgorithm, "{}", vector.name);
    }
}

#[test]
fn what_the_first_example_claims_is_read() {
    let rules = Claims { issuers: vec!["joe".to_owned()], ..claims() };
    let jwt = Jwt::new(VECTORS[0].keys(), rules, places(), 8192);
    let token = VECTORS[0].token();
    let grant = jwt.verify_token(token.as_bytes(), &["/"], 1_300_819_379).unwrap();
    assert_eq!(grant.expires, Some(1_300_819_380));
    assert_eq!(code(jwt.verify_token(token.as_bytes(), &["/"], 1_300_819_380)), Code::TokenExpired);
}
