//! Files that change while they are served: links, halves, pairs that do not match, directories, and a thousand of them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use penstock_error::Error;
use proptest::prelude::*;

use super::support::{Authority, served, settings};
use crate::{TlsServer, TlsSettings};

const NAME: &str = "a.example";
const RENEWED: &str = "renewed.example";

/// Settings of a site with a directory alone.
fn listed(directory: &Path) -> TlsSettings {
    TlsSettings { directory: Some(directory.to_owned()), ..settings(Vec::new()) }
}

/// Puts a pair where certbot has it.
fn write_live(authority: &Authority, directory: &Path, names: &[&str]) {
    let (certificate, key) = authority.pem(names);
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("fullchain.pem"), certificate).unwrap();
    fs::write(directory.join("privkey.pem"), key).unwrap();
}

/// The error in `told`, which must be one.
fn only(told: &[Error]) -> String {
    assert_eq!(told.len(), 1, "{told:?}");
    told[0].to_string()
}

fn names(server: &TlsServer) -> BTreeSet<String> {
    server.certificates().iter().map(|certificate| certificate.name.clone()).collect()
}

#[test]
fn a_link_that_is_moved_changes_both_files_at_once() {
    let authority = Authority::new();
    // As Kubernetes mounts a secret: `..data` is moved, and nothing else changes.
    let mounted = authority.path("mounted");
    for (version, name) in [("..1", NAME), ("..2", RENEWED)] {
        write_live(&authority, &mounted.join(version), &[NAME, name]);
    }
    symlink("..1", mounted.join("..data")).unwrap();
    symlink("..data/fullchain.pem", mounted.join("tls.pem")).unwrap();
    symlink("..data/privkey.pem", mounted.join("tls.key")).unwrap();
    let server = TlsServer::new(listed(&mounted)).unwrap();
    assert_eq!(names(&server), ["tls".to_owned()].into());
    assert_eq!(served(&server, &authority, NAME), [NAME, NAME]);
    symlink("..2", mounted.join("..new")).unwrap();
    fs::rename(mounted.join("..new"), mounted.join("..data")).unwrap();
    assert_eq!(server.look(), []);
    assert_eq!(served(&server, &authority, NAME), [NAME, RENEWED]);
    let counts = server.counts();
    assert_eq!(server.look(), []);
    assert_eq!(server.counts(), counts, "nothing has changed");
}

#[test]
fn a_file_that_is_half_written_changes_nothing_and_is_told_once() {
    let authority = Authority::new();
    let files = authority.write("a", &[NAME]);
    let server = TlsServer::new(settings(vec![files.clone()])).unwrap();
    let (certificate, key) = authority.pem(&[RENEWED]);
    fs::write(&files.certificate, &certificate[..certificate.len() / 2]).unwrap();
    let error = only(&server.look());
    assert!(error.contains("a.pem is not whole, or not PEM"), "{error}");
    assert!(server.certificates()[0].is_stale);
    assert_eq!(server.look(), []);
    assert_eq!(served(&server, &authority, NAME), [NAME]);
    // Whole, and the key is still the old one.
    fs::write(&files.certificate, &certificate).unwrap();
    let error = only(&server.look());
    assert!(error.contains("a.pem is not that of the key"), "{error}");
    assert_eq!(served(&server, &authority, NAME), [NAME]);
    fs::write(&files.key, &key).unwrap();
    assert_eq!(server.look(), []);
    assert_eq!(served(&server, &authority, NAME), [RENEWED]);
    assert!(!server.certificates()[0].is_stale);
    assert_eq!((server.counts().reloads, server.counts().failed_reloads), (1, 2));
}

#[test]
fn a_reload_tells_again_what_a_look_has_told() {
    let authority = Authority::new();
    let files = authority.write("a", &[NAME]);
    let server = TlsServer::new(settings(vec![files.clone()])).unwrap();
    fs::remove_file(&files.key).unwrap();
    let error = only(&server.look());
    assert!(error.contains("a.key does not exist"), "{error}");
    assert_eq!(server.look(), []);
    assert_eq!(only(&server.reload()), error);
}

#[test]
fn what_is_wrong_with_a_pair_is_said() {
    let authority = Authority::new();
    let (certificate, key) = authority.pem(&[NAME]);
    let (_, other_key) = authority.pem(&[NAME]);
    let expired = authority.pem_of(&[NAME], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.not_after = rcgen::date_time_ymd(2024, 1, 1);
    });
    let coming = authority.pem_of(&[NAME], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.not_before = rcgen::date_time_ymd(2090, 1, 1);
    });
    let reversed = (authority.issuer.pem() + &certificate, key.clone());
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIC\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let garbled = certificate.replacen("MII", "AII", 1);
    for (pair, part) in [
        ((certificate.clone(), other_key), "is not that of the key"),
        ((certificate.clone(), String::new()), "holds no key"),
        ((certificate.clone(), encrypted.to_owned()), "is encrypted: write it without a password"),
        ((key.clone(), key.clone()), "holds no certificate"),
        ((garbled, key.clone()), "is malformed"),
        (expired, "has expired: renew it"),
        (coming, "is not valid yet: check the clock"),
        (reversed, "behind others: put it first"),
    ] {
        let error = TlsServer::new(settings(vec![authority.write_pem("a", &pair)])).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(TlsServer::new(settings(vec![authority.write_pem("a", &(certificate, key))])).is_ok());
}

#[test]
fn a_certificate_that_expires_while_it_is_served_is_told_once_and_stays() {
    let authority = Authority::new();
    let pem = authority.pem_of(&[NAME], &rcgen::PKCS_ECDSA_P256_SHA256, |params| {
        params.not_after = rcgen::date_time_ymd(2080, 1, 1);
    });
    let files = authority.write_pem("a", &pem);
    let server = TlsServer::new(settings(vec![files])).unwrap();
    let not_after = server.certificates()[0].not_after.unwrap();
    let second = Duration::from_secs(1);
    // Ticket keys are turned by then, and nothing else.
    assert_eq!(server.look_at(not_after, false), []);
    assert!(!server.certificates()[0].is_stale);
    let error = only(&server.look_at(not_after + second, false));
    assert!(error.contains("a.pem has expired: renew it"), "{error}");
    assert_eq!(server.look_at(not_after + second * 10, false), []);
    assert!(server.certificates()[0].is_stale);
    assert_eq!(served(&server, &authority, NAME), [NAME]);
}

#[test]
fn a_directory_is_followed() {
    let authority = Authority::new();
    let live = authority.path("live");
    write_live(&authority, &live.join("one"), &["one.example"]);
    fs::write(live.join("README"), "what certbot puts there").unwrap();
    let server = TlsServer::new(listed(&live)).unwrap();
    assert_eq!(served(&server, &authority, "two.example"), ["one.example"], "the default");
    write_live(&authority, &live.join("two"), &["two.example"]);
    assert_eq!(server.look(), []);
    assert_eq!(served(&server, &authority, "two.example"), ["two.example"]);
    fs::remove_dir_all(live.join("one")).unwrap();
    assert_eq!(server.look(), []);
    assert_eq!(names(&server), ["two".to_owned()].into());
    assert_eq!(served(&server, &authority, "one.example"), ["two.example"]);
    // An empty directory is a mistake, as one is that is not there: what was served stays.
    for error in ["holds no certificate", "does not exist"] {
        if live.join("two").exists() {
            fs::rename(live.join("two"), authority.path("away")).unwrap();
        } else {
            fs::remove_dir_all(&live).unwrap();
        }
        assert!(only(&server.look()).contains(error));
        assert_eq!(server.look(), []);
        assert_eq!(served(&server, &authority, "two.example"), ["two.example"]);
        assert!(server.certificates()[0].is_stale);
    }
    write_live(&authority, &live.join("two"), &["two.example", RENEWED]);
    assert_eq!(server.look(), []);
    assert_eq!(served(&server, &authority, RENEWED), ["two.example", RENEWED]);
}

#[test]
fn two_pairs_of_one_name_are_an_error_and_two_pairs_for_one_host_are_not() {
    let authority = Authority::new();
    let directory = authority.path("certificates");
    write_live(&authority, &directory.join("a"), &[NAME]);
    let (certificate, key) = authority.pem(&[RENEWED]);
    fs::write(directory.join("a.crt"), &certificate).unwrap();
    fs::write(directory.join("a.key"), &key).unwrap();
    let error = TlsServer::new(listed(&directory)).unwrap_err().to_string();
    assert!(error.contains("is one of several of the same name"), "{error}");
    fs::rename(directory.join("a.crt"), directory.join("b.crt")).unwrap();
    fs::rename(directory.join("a.key"), directory.join("b.key")).unwrap();
    write_live(&authority, &directory.join("c"), &[NAME]);
    let server = TlsServer::new(listed(&directory)).unwrap();
    assert_eq!(served(&server, &authority, NAME), [NAME]);
    assert_eq!(served(&server, &authority, RENEWED), [RENEWED]);
}

#[test]
fn a_thousand_certificates_are_served_by_name_and_one_is_read_anew() {
    let authority = Authority::new();
    let directory = authority.path("certificates");
    for number in 0..1_000 {
        write_live(&authority, &directory.join(number.to_string()), &[&format!("{number}.example")]);
    }
    let server = TlsServer::new(listed(&directory)).unwrap();
    assert_eq!(server.certificates().len(), 1_000);
    for number in [0, 1, 500, 999] {
        let name = format!("{number}.example");
        assert_eq!(served(&server, &authority, &name), [&*name]);
    }
    let before = server.config(&[]);
    assert_eq!(server.look(), []);
    assert!(std::sync::Arc::ptr_eq(&before, &server.config(&[])), "nothing has changed");
    write_live(&authority, &directory.join("500"), &["500.example", RENEWED]);
    assert_eq!(server.look(), []);
    assert_eq!(served(&server, &authority, RENEWED), ["500.example", RENEWED]);
    assert_eq!(served(&server, &authority, "501.example"), ["501.example"]);
    fs::write(directory.join("7/fullchain.pem"), "").unwrap();
    assert!(only(&server.look()).contains("holds no certificate"));
    assert_eq!(served(&server, &authority, "7.example"), ["7.example"]);
}

#[test]
fn what_was_served_when_a_connection_began_stays_its_own() {
    let authority = Authority::new();
    let files = authority.write("a", &[NAME]);
    let server = TlsServer::new(settings(vec![files])).unwrap();
    let begun = server.config(&[]);
    authority.write("a", &[RENEWED]);
    assert_eq!(server.look(), []);
    assert_eq!(served(&server, &authority, NAME), [RENEWED]);
    let client = std::sync::Arc::new(authority.client(None));
    assert!(super::support::connect(begun, &client, NAME).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A pair is whole or is not served: neither a cut nor a change of any byte gives another result, or a panic.
    #[test]
    fn whatever_stands_in_a_file_what_is_served_is_whole(
        of_key: bool, place in any::<prop::sample::Index>(), byte: u8, cut: bool
    ) {
        let authority = Authority::new();
        let files = authority.write("a", &[NAME, "old.example"]);
        let server = TlsServer::new(settings(vec![files.clone()])).unwrap();
        let (certificate, key) = authority.pem(&[NAME, RENEWED]);
        let mut damaged = if of_key { key.clone() } else { certificate.clone() }.into_bytes();
        let place = place.index(damaged.len());
        if cut {
            damaged.truncate(place);
        } else {
            damaged[place] = byte;
        }
        fs::write(&files.certificate, if of_key { certificate.as_bytes() } else { &damaged }).unwrap();
        fs::write(&files.key, if of_key { &damaged } else { key.as_bytes() }).unwrap();
        let told = server.look_at(SystemTime::now(), false);
        let shown = served(&server, &authority, NAME);
        // A change of a name is for clients to notice, by the signature.
        prop_assert!(told.is_empty() != (shown == [NAME, "old.example"]), "{:?} {:?}", shown, told);
    }
}
