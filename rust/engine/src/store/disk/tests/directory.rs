use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use super::super::directory::Directory;
use crate::error::Code;

#[test]
fn a_second_one_is_told_and_may_have_it_when_the_first_has_let_go() {
    let root = tempfile::tempdir().unwrap();
    let first = Directory::open(root.path()).unwrap();
    assert_eq!(Directory::open(root.path()).unwrap_err().code(), Code::CacheDirectoryTaken);
    first.release();
    Directory::open(root.path()).unwrap();
}

#[test]
fn what_was_begun_is_gone_after_a_crash_and_what_was_finished_is_there() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).unwrap();
    directory.begin(1).unwrap().write_all(b"half").unwrap();
    directory.begin(0xab00_0000_0000_0002).unwrap().write_all(b"whole").unwrap();
    directory.finish(0xab00_0000_0000_0002).unwrap();
    let foreign = root.path().join("unfinished/README");
    fs::write(&foreign, "not ours").unwrap();
    drop(directory);
    let directory = Directory::open(root.path()).unwrap();
    assert_eq!(directory.names(0xab).unwrap(), [0xab00_0000_0000_0002]);
    assert!(directory.begin(1).is_ok(), "the leftover is gone");
    assert!(foreign.exists());
    directory.remove(0xab00_0000_0000_0002).unwrap();
    assert_eq!(directory.names(0xab).unwrap(), [0_u64; 0]);
}

#[test]
fn only_what_is_named_as_files_of_a_cache_are_is_one() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).unwrap();
    for name in ["ab/ab00000000000001", "ab/AB00000000000002", "ab/cd00000000000003", "ab/+b00000000000004"] {
        fs::write(root.path().join(name), "").unwrap();
    }
    assert_eq!(directory.names(0xab).unwrap(), [0xab00_0000_0000_0001]);
}

#[test]
fn what_is_no_regular_file_is_neither_found_nor_opened() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).unwrap();
    let path = |name: u64| root.path().join(format!("ab/{name:016x}"));
    let [pipe, link, folder, device, whole] = [1, 2, 3, 4, 5].map(|number| 0xab00_0000_0000_0000 + number);
    assert!(Command::new("mkfifo").arg(path(pipe)).status().unwrap().success());
    fs::write(path(whole), "it").unwrap();
    symlink(path(whole), path(link)).unwrap();
    symlink("/dev/zero", path(device)).unwrap();
    fs::create_dir(path(folder)).unwrap();
    assert_eq!(directory.names(0xab).unwrap(), [whole]);
    for name in [pipe, link, folder, device] {
        assert!(directory.read(name).is_err(), "{name:x}");
        assert!(directory.change(name).is_err(), "{name:x}");
    }
    assert!(directory.read(whole).is_ok() && directory.change(whole).is_ok());
    // In the folder of unfinished files as well.
    let unfinished = root.path().join("unfinished/0000000000000001");
    assert!(Command::new("mkfifo").arg(&unfinished).status().unwrap().success());
    drop(directory);
    Directory::open(root.path()).unwrap();
    assert!(unfinished.exists());
}

#[test]
fn a_link_in_place_of_a_folder_is_refused() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(elsewhere.path(), root.path().join("ab")).unwrap();
    assert_eq!(Directory::open(root.path()).unwrap_err().code(), Code::CacheDirectoryFailed);
}

#[test]
fn what_is_stored_is_for_its_user_alone() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("cache");
    fs::create_dir(&root).unwrap();
    fs::create_dir(root.join("ab")).unwrap();
    fs::set_permissions(root.join("ab"), fs::Permissions::from_mode(0o755)).unwrap();
    let directory = Directory::open(&root).unwrap();
    directory.begin(0xab00_0000_0000_0001).unwrap().write_all(b"x").unwrap();
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("unfinished/ab00000000000001"), 0o600);
    directory.finish(0xab00_0000_0000_0001).unwrap();
    for (path, expected) in
        [("ab/ab00000000000001", 0o600), ("lock", 0o600), ("ab", 0o700), ("00", 0o700), ("unfinished", 0o700)]
    {
        assert_eq!(mode(path), expected, "{path}");
    }
}

#[test]
fn its_parent_is_not_made() {
    let root = tempfile::tempdir().unwrap();
    let error = Directory::open(&root.path().join("not mounted/cache")).unwrap_err();
    assert_eq!(error.code(), Code::CacheDirectoryFailed);
}
