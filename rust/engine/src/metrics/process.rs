//! The process, with figures of the kernel, and its engine threads. A figure that the kernel does not give is omitted.

use std::fs;

use super::Exposition;
use crate::runtime::Threads;

pub(super) fn write(version: &str, threads: &Threads, out: &mut Exposition) {
    out.gauge("penstock_build_info", "1, with the version that runs.").sample(&[("version", version)], 1_u64);
    let mut open = out.gauge("penstock_process_open_descriptors", "Descriptors that are open.");
    if let Ok(listed) = fs::read_dir("/proc/self/fd") {
        // One descriptor is that of the listing itself.
        open.sample(&[], listed.count().saturating_sub(1));
    }
    let mut most = out.gauge("penstock_process_descriptor_limit", "Descriptors that may be open.");
    if let Some(limit) =
        fs::read_to_string("/proc/self/limits").ok().and_then(|limits| descriptor_limit(&limits))
    {
        most.sample(&[], limit);
    }
    let mut resident = out.gauge("penstock_process_resident_bytes", "Memory that is present.");
    if let Some(bytes) = resident_now() {
        resident.sample(&[], bytes);
    }
    write_threads(threads, out);
}

/// Memory of the process that is present.
pub(super) fn resident_now() -> Option<u64> {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| resident_bytes(&status))
}

fn write_threads(threads: &Threads, out: &mut Exposition) {
    let activity = threads.activity();
    let numbers: Vec<String> = (0..activity.len()).map(|number| number.to_string()).collect();
    let each = || numbers.iter().map(String::as_str).zip(&activity);
    let mut busy = out
        .counter("penstock_engine_thread_busy_seconds_total", "Time that an engine thread has been at work.");
    for (number, activity) in each() {
        busy.sample(&[("thread", number)], activity.busy);
    }
    let help =
        "Time since an engine thread last reported progress; it does so once a second unless it hangs.";
    let mut silent = out.gauge("penstock_engine_thread_silent_seconds", help);
    for (number, activity) in each() {
        silent.sample(&[("thread", number)], activity.silent);
    }
    let mut tasks =
        out.gauge("penstock_engine_tasks", "Tasks of an engine thread, such as connections and fetches.");
    for (number, activity) in each() {
        tasks.sample(&[("thread", number)], activity.tasks);
    }
}

fn descriptor_limit(limits: &str) -> Option<u64> {
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn resident_bytes(status: &str) -> Option<u64> {
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?;
    kibibytes.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(descriptor_limit(limits), Some(1024));
        assert_eq!(descriptor_limit("Max open files            unlimited  unlimited  files"), None);
        assert_eq!(resident_bytes("VmSize:\t  9000 kB\nVmRSS:\t    1234 kB\n"), Some(1234 * 1024));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
    }
}
