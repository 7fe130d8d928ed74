//! The cache: results of lookups, and the use of its tiers.

use super::Exposition;
use crate::store::{Cache, CacheStats, DiskStats};

pub(super) fn write(cache: &Cache, out: &mut Exposition) {
    let (stats, disk) = (cache.stats(), cache.disk_stats());
    write_fullness(&stats, disk.as_ref(), out);
    let help = "Requests to the cache, by result: a stored fresh response, a stale one, one that the origin had \
        just confirmed, another request's fetch, a response of the origin that was stored, one that was \
        not, an error.";
    let mut requests = out.counter("penstock_cache_requests_total", help);
    for (route, went) in cache.requests() {
        let route = ("route", &*route);
        requests
            .sample(&[route, ("result", "hit")], went.hits)
            .sample(&[route, ("result", "stale")], went.stale)
            .sample(&[route, ("result", "revalidated")], went.revalidated)
            .sample(&[route, ("result", "collapsed")], went.collapsed)
            .sample(&[route, ("result", "miss")], went.misses)
            .sample(&[route, ("result", "passed")], went.passed)
            .sample(&[route, ("result", "error")], went.errors);
    }
    let help = "Responses, and parts, that left memory because room was needed.";
    out.counter("penstock_cache_evictions_total", help).sample(&[], stats.evicted);
    if let Some(disk) = disk {
        write_disk(&disk, out);
    }
}

fn write_fullness(stats: &CacheStats, disk: Option<&DiskStats>, out: &mut Exposition) {
    out.gauge("penstock_cache_keys", "URLs under which something is stored or being fetched.")
        .sample(&[], stats.keys);
    let (memory, on_disk) = ([("tier", "memory")], [("tier", "disk")]);
    let mut objects = out.gauge("penstock_cache_objects", "Responses that are stored, and parts of such.");
    objects.sample(&memory, stats.objects);
    if let Some(disk) = disk {
        objects.sample(&on_disk, disk.objects);
    }
    let mut used = out.gauge("penstock_cache_used_bytes", "Bytes that are used.");
    used.sample(&memory, stats.used);
    if let Some(disk) = disk {
        used.sample(&on_disk, disk.used);
    }
    let mut limit = out.gauge("penstock_cache_limit_bytes", "Bytes that may be used.");
    limit.sample(&memory, stats.limit);
    if let Some(disk) = disk {
        limit.sample(&on_disk, disk.limit);
    }
}

fn write_disk(disk: &DiskStats, out: &mut Exposition) {
    let help = "Whether the files that were on disk at the start have been read.";
    out.gauge("penstock_cache_disk_ready", help).sample(&[], disk.ready);
    let help = "Whether the disk hangs: it then counts as empty.";
    out.gauge("penstock_cache_disk_hanging", help).sample(&[], disk.hanging);
    out.counter("penstock_cache_disk_hits_total", "Responses served from files.").sample(&[], disk.hits);
    out.counter("penstock_cache_disk_promotions_total", "Responses that were brought back into memory.")
        .sample(&[], disk.promoted);
    out.counter("penstock_cache_disk_writes_total", "Responses written.").sample(&[], disk.written);
    let help = "Responses that left memory unwritten: too many left at once, or the disk had just failed.";
    out.counter("penstock_cache_disk_skips_total", help).sample(&[], disk.skipped);
    out.counter("penstock_cache_disk_failures_total", "Failures of the disk, such as for want of space.")
        .sample(&[], disk.failed);
    let help = "Files that were not what was written, and were dropped.";
    out.counter("penstock_cache_disk_damages_total", help).sample(&[], disk.damaged);
    let help = "Requests that waited for the disk for the whole time limit.";
    out.counter("penstock_cache_disk_timeouts_total", help).sample(&[], disk.timeouts);
}
