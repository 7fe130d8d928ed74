use std::fs;
use std::io::Write;

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
fn its_parent_is_not_made() {
    let root = tempfile::tempdir().unwrap();
    let error = Directory::open(&root.path().join("not mounted/cache")).unwrap_err();
    assert_eq!(error.code(), Code::CacheDirectoryFailed);
}
