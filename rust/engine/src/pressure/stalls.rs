//! How much of the time all tasks have waited for memory, as the kernel measures it (PSI: Linux, "Documentation/accounting/psi.rst").

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Where it is read: the control group's own first, then the whole system's.
const PLACES: [&str; 2] = ["/sys/fs/cgroup/memory.pressure", "/proc/pressure/memory"];

/// How often it is read. Arbitrary; one reading takes some 10 us.
const PAUSE: Duration = Duration::from_secs(1);

/// Reads the share again and again.
#[derive(Debug)]
pub(super) struct Stalls {
    /// `None` where the kernel does not measure it.
    place: Option<PathBuf>,
    /// When it was read, and the sum then.
    last: Option<(Duration, Duration)>,
    share: f64,
}

impl Stalls {
    pub(super) fn new() -> Self {
        Self::at(PLACES.iter().map(PathBuf::from).find(|place| total(place).is_some()))
    }

    fn at(place: Option<PathBuf>) -> Self {
        Self { place, last: None, share: 0.0 }
    }

    /// The share of the last second, at `now`, from 0 to 1.
    pub(super) fn share(&mut self, now: Duration) -> f64 {
        let Some(place) = &self.place else { return 0.0 };
        if self.last.is_some_and(|(read, _)| now.saturating_sub(read) < PAUSE) {
            return self.share;
        }
        let sum = total(place);
        self.share = match (self.last, sum) {
            (Some((read, before)), Some(sum)) => {
                sum.saturating_sub(before).as_secs_f64() / now.saturating_sub(read).as_secs_f64()
            }
            _ => 0.0,
        };
        self.last = sum.map(|sum| (now, sum));
        self.share
    }
}

/// The sum in the line `full`: the time in which no task went on, because all waited for memory.
fn total(place: &PathBuf) -> Option<Duration> {
    let text = fs::read_to_string(place).ok()?;
    let line = text.lines().find(|line| line.starts_with("full "))?;
    let micros = line.split(' ').find_map(|word| word.strip_prefix("total="))?;
    micros.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(total: u64) -> String {
        format!(
            "some avg10=1.00 avg60=0.50 avg300=0.10 total=9000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n"
        )
    }

    fn percent(share: f64) -> u32 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
        let percent = (share * 100.0).round() as u32;
        percent
    }

    #[test]
    fn the_share_is_of_the_time_between_two_readings() {
        let place = std::env::temp_dir().join(format!("penstock-psi-{}", std::process::id()));
        let mut stalls = Stalls::at(Some(place.clone()));
        let mut read = |total: u64, at: u64| {
            fs::write(&place, text(total)).unwrap();
            percent(stalls.share(Duration::from_millis(at)))
        };
        assert_eq!(read(5_000_000, 1000), 0, "what was before is not known");
        assert_eq!(read(5_500_000, 1500), 0, "too early");
        assert_eq!(read(5_500_000, 3000), 25);
        assert_eq!(read(5_500_000, 4000), 0);
        fs::remove_file(&place).unwrap();
        assert_eq!(percent(stalls.share(Duration::from_secs(9))), 0, "it cannot be read any more");
    }

    #[test]
    fn where_it_is_not_measured_there_is_none() {
        assert_eq!(percent(Stalls::at(None).share(Duration::from_secs(1))), 0);
    }
}
