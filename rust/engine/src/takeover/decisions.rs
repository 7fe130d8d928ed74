//! Decisions of hooks and totals of tenants, in a file that goes to the process that takes over.
//!
//! A record is a length of 4 bytes, a byte that says what it is, and its parts as in other messages between processes. A
//! record that is longer than `LENGTH` is left out. What the file says is checked: a process that gives nonsense has no
//! decision taken.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::access::{Decisions, Denial, Grant, Key, Limits, Remembered, TenantLimits, Verdict};
use crate::codec::{Put, Take, malformed};
use crate::error::{Code, Error, Result};

/// Bytes of a record at most. Arbitrary: names of tenants and details of denials are short.
const LENGTH: usize = 64 << 10;

/// How long a decision may hold: what `penstock.web.Allow` takes at most.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

const TENANT: u8 = 0;
const ALLOWED: u8 = 1;
const DENIED: u8 = 2;

/// What to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// What is cached, and what tenants have had.
    All,
    /// What tenants have had.
    Totals,
    /// What tenants have had since the last call.
    Growth,
}

/// What a file of decisions has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// Decisions.
    pub decisions: usize,
    /// Tenants with bytes that are counted.
    pub tenants: usize,
}

/// Writes `content`, up to `most` bytes.
///
/// # Errors
/// The file cannot be written.
pub fn write(
    decisions: &Decisions,
    file: &mut impl Write,
    content: Content,
    most: usize,
) -> io::Result<DecisionCounts> {
    let mut records = Records { file, bytes: Vec::new(), left: most };
    let mut counts = DecisionCounts::default();
    for (name, bytes) in decisions.tell_totals(content != Content::Growth) {
        Put(&mut records.bytes).u8(TENANT).bytes(name.as_bytes()).u64(bytes);
        counts.tenants += usize::from(records.end()?);
    }
    if content == Content::All {
        let mut failure = None;
        decisions.each(|remembered| {
            put(&mut records.bytes, &remembered);
            match records.end() {
                Ok(is_written) => counts.decisions += usize::from(is_written),
                Err(error) => failure = Some(error),
            }
            failure.is_none() && records.left > 0
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    file.flush()?;
    Ok(counts)
}

/// A file that records are written to.
struct Records<'a, F> {
    file: &'a mut F,
    /// The record that is being made.
    bytes: Vec<u8>,
    /// Bytes that may still be written.
    left: usize,
}

impl<F: Write> Records<'_, F> {
    /// Writes the record. False: it is too long, or there is no room for it.
    fn end(&mut self) -> io::Result<bool> {
        let length = self.bytes.len();
        let needed = length + size_of::<u32>();
        let fits = length <= LENGTH && needed <= self.left;
        if fits {
            let prefix = u32::try_from(length).expect("a record is short").to_le_bytes();
            self.file.write_all(&prefix)?;
            self.file.write_all(&self.bytes)?;
            self.left -= needed;
        } else if length <= LENGTH {
            self.left = 0;
        }
        self.bytes.clear();
        Ok(fits)
    }
}

fn put(bytes: &mut Vec<u8>, remembered: &Remembered<'_>) {
    let Remembered { hash, route, verdict, left } = remembered;
    let mut put = Put(bytes);
    let kind = if matches!(verdict, Verdict::Allow(_)) { ALLOWED } else { DENIED };
    put.u8(kind).rest(hash).bytes(route.as_bytes()).duration(*left);
    match verdict {
        // A hook grants nothing else.
        Verdict::Allow(Grant { tenant, limits, .. }) => {
            put.option(tenant.as_deref(), |put, name| put.bytes(name.as_bytes()));
            put.option(limits.as_ref(), put_limits);
        }
        Verdict::Deny(Denial { status, detail, challenge }) => {
            put.u16(*status);
            for text in [detail, challenge] {
                put.option(text.as_deref(), |put, text| put.bytes(text.as_bytes()));
            }
        }
    }
}

fn put_limits<'a, 'b>(put: &'a mut Put<'b>, limits: &TenantLimits) -> &'a mut Put<'b> {
    let TenantLimits { requests: Limits { concurrency, rate, burst }, bandwidth, total } = limits;
    put.option(*concurrency, |put, count| put.u64(count as u64))
        .option(*rate, |put, rate| put.u64(rate.to_bits()))
        .u64(burst.to_bits())
        .option(*bandwidth, |put, rate| put.u64(rate.to_bits()))
        .option(*total, |put, bytes| put.u64(bytes))
}

/// Takes what a file has from where it stands: the bytes of tenants, and with `has_decisions` decisions.
///
/// # Errors
/// The file cannot be read, or has something else. What stands before that is taken.
pub fn take(decisions: &Decisions, file: &mut impl Read, has_decisions: bool) -> io::Result<DecisionCounts> {
    let mut counts = DecisionCounts::default();
    let mut bytes = Vec::new();
    while next(file, &mut bytes)? {
        take_record(decisions, &bytes, has_decisions, &mut counts).map_err(|error| invalid(&error))?;
    }
    Ok(counts)
}

fn invalid(error: &Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// Reads the next record. False: the file ends.
fn next(file: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut prefix = [0; size_of::<u32>()];
    let (first, others) = prefix.split_at_mut(1);
    if file.read(first)? == 0 {
        return Ok(false);
    }
    file.read_exact(others)?;
    let length = u32::from_le_bytes(prefix) as usize;
    if length > LENGTH {
        return Err(invalid(&malformed()));
    }
    bytes.resize(length, 0);
    file.read_exact(bytes)?;
    Ok(true)
}

fn take_record(
    decisions: &Decisions,
    bytes: &[u8],
    has_decisions: bool,
    counts: &mut DecisionCounts,
) -> Result<()> {
    let mut take = Take(bytes);
    let kind = take.u8()?;
    if kind == TENANT {
        let (name, bytes) = (take.text()?, take.u64()?);
        take.end()?;
        counts.tenants += usize::from(is_known(decisions.count(name, bytes).map(|()| true))?);
        return Ok(());
    }
    let hash = take.array::<{ Key::LENGTH }>()?;
    let (route, left) = (take.text()?, take.duration()?);
    if left > YEAR {
        return Err(malformed());
    }
    let verdict = match kind {
        ALLOWED => {
            let tenant = take.option(Take::text)?.map(Into::into);
            let limits = take.option(take_limits)?;
            Verdict::Allow(Grant { tenant, limits, ..Grant::default() })
        }
        DENIED => {
            let status =
                Some(take.u16()?).filter(|status| (400..600).contains(status)).ok_or_else(malformed)?;
            let mut text = || take.option(Take::text).map(|text| text.map(Into::into));
            Verdict::Deny(Denial { status, detail: text()?, challenge: text()? })
        }
        _ => return Err(malformed()),
    };
    take.end()?;
    if has_decisions {
        let remembered = Remembered { hash, route, verdict, left };
        counts.decisions += usize::from(is_known(decisions.take_over(remembered))?);
    }
    Ok(())
}

/// The result, but for a tenant for which there is no room: what is about it is left out.
fn is_known(taken: Result<bool>) -> Result<bool> {
    match taken {
        Err(error) if error.code() == Code::TooManyTenants => Ok(false),
        taken => taken,
    }
}

fn take_limits(take: &mut Take<'_>) -> Result<TenantLimits> {
    let concurrency = take.option(Take::u64)?.map(usize::try_from).transpose().map_err(|_| malformed())?;
    let (rate, burst) = (take.option(take_rate)?, take_rate(take)?);
    let requests = Limits { concurrency, rate, burst };
    Ok(TenantLimits { requests, bandwidth: take.option(take_rate)?, total: take.option(Take::u64)? })
}

/// A number above 0.
fn take_rate(take: &mut Take<'_>) -> Result<f64> {
    let rate = f64::from_bits(take.u64()?);
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err(malformed()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::access::{AccessConfig, Decider, Gate, Part, Secret};
    use crate::sync::Arc;

    const OPEN: TenantLimits = TenantLimits {
        requests: Limits { concurrency: None, rate: None, burst: 1.0 },
        bandwidth: None,
        total: None,
    };
    const CONFIG: AccessConfig = AccessConfig {
        decisions: 8,
        denials: 4,
        questions: 4,
        timeout: Duration::from_secs(60),
        tenants: 4,
        tenant_limits: OPEN,
    };

    /// Decisions of a process that has the route `r`.
    fn decisions() -> Arc<Decisions> {
        let decisions = Arc::new(Decisions::new(&CONFIG));
        gate(&decisions);
        decisions
    }

    fn gate(decisions: &Arc<Decisions>) -> Gate {
        let (lifetime, secret) = (CONFIG.timeout, Secret::new(&[7; 64]));
        Gate::new("r", "r".into(), vec![Part::Host], Decider::Ask, lifetime, Arc::clone(decisions), secret)
    }

    fn allow(tenant: &str, limits: Option<TenantLimits>) -> Verdict {
        Verdict::Allow(Grant { tenant: Some(tenant.into()), limits, ..Grant::default() })
    }

    /// A file of what a process has that has let in, refused and counted, and what is in it.
    fn written(content: Content, most: usize) -> (Vec<u8>, DecisionCounts) {
        let from = decisions();
        let requests = Limits { concurrency: Some(3), rate: Some(0.5), burst: 7.0 };
        let limits = TenantLimits { requests, bandwidth: Some(1e6), total: Some(1 << 40) };
        let denial = Denial { status: 401, detail: Some("no".into()), challenge: Some("Bearer".into()) };
        let verdicts = [allow("a", Some(limits)), Verdict::Allow(Grant::default()), Verdict::Deny(denial)];
        for (number, verdict) in (1..).zip(verdicts) {
            from.remember(Key::new([number; Key::LENGTH]), verdict, CONFIG.timeout).unwrap();
        }
        from.count("a", 1000).unwrap();
        let mut file = Vec::new();
        let counts = write(&from, &mut file, content, most).unwrap();
        (file, counts)
    }

    fn taken(mut file: &[u8], has_decisions: bool) -> (Arc<Decisions>, io::Result<DecisionCounts>) {
        let to = decisions();
        let counts = take(&to, &mut file, has_decisions);
        (to, counts)
    }

    #[test]
    fn what_is_written_is_taken() {
        let (file, counts) = written(Content::All, usize::MAX);
        assert_eq!(counts, DecisionCounts { decisions: 3, tenants: 1 });
        let (to, taken) = taken(&file, true);
        assert_eq!(taken.unwrap(), counts);
        let mut found = Vec::new();
        to.each(|Remembered { hash, route, verdict, left }| {
            assert!(left <= CONFIG.timeout && left > CONFIG.timeout / 2, "{left:?}");
            found.push(format!("{} {route} {verdict:?}", hash[0]));
            true
        });
        assert!(
            found[0].starts_with("1 r Allow") && found[0].contains("rate: Some(0.5), burst: 7.0"),
            "{found:?}"
        );
        assert!(found[1].starts_with("2 r Allow(Grant { tenant: None"), "{found:?}");
        assert!(found[2].starts_with("3 r Deny") && found[2].contains("401"), "{found:?}");
        assert_eq!(to.tenants()[0].1.bytes, 1000);
    }

    #[test]
    fn totals_move_without_decisions() {
        let tenants = DecisionCounts { tenants: 1, decisions: 0 };
        let (file, counts) = written(Content::Totals, usize::MAX);
        assert_eq!((counts, taken(&file, true).1.unwrap()), (tenants, tenants));
        let (to, counts) = taken(&written(Content::All, usize::MAX).0, false);
        assert_eq!((counts.unwrap(), to.stats().allowed), (tenants, 0));
    }

    #[test]
    fn a_file_ends_where_there_is_no_room_for_the_next_record() {
        let whole = written(Content::All, usize::MAX).0;
        let (file, counts) = written(Content::All, whole.len() - 1);
        assert_eq!(counts, DecisionCounts { decisions: 2, tenants: 1 });
        assert!(file.len() < whole.len());
        assert_eq!(taken(&file, true).1.unwrap(), counts);
    }

    #[test]
    fn a_record_that_is_too_long_is_left_out_and_the_next_ones_are_not() {
        let from = decisions();
        for (number, name) in [(1, "a".repeat(LENGTH)), (2, "b".to_owned())] {
            from.remember(Key::new([number; Key::LENGTH]), allow(&name, None), CONFIG.timeout).unwrap();
        }
        let mut file = Vec::new();
        let counts = write(&from, &mut file, Content::All, usize::MAX).unwrap();
        assert_eq!(counts, DecisionCounts { decisions: 1, tenants: 0 });
        assert_eq!(taken(&file, true).1.unwrap(), counts);
    }

    /// What a build of before has written, and one of later reads.
    #[test]
    fn records_are_those_of_the_golden_file() {
        let digits = include_str!("golden.txt").trim_end();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let golden: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let (to, counts) = taken(&golden, true);
        assert_eq!(counts.unwrap(), DecisionCounts { decisions: 3, tenants: 1 });
        assert_eq!((to.stats().allowed, to.stats().denied), (2, 1));
        let file = written(Content::All, usize::MAX).0;
        assert_eq!(file.len(), golden.len(), "a change of the format has a protocol of its own");
    }

    proptest! {
        #[test]
        fn a_file_that_was_changed_or_cut_costs_nothing_but_its_decisions(
            at in 0..200_usize, bit in 0..8_u8, end in 0..400_usize,
        ) {
            let (mut file, counts) = written(Content::All, usize::MAX);
            let end = end.min(file.len());
            file.truncate(end);
            if let Some(byte) = file.get_mut(at) {
                *byte ^= 1 << bit;
            }
            let (to, taken) = taken(&file, true);
            if let Ok(taken) = taken {
                prop_assert!(taken.decisions <= counts.decisions);
            }
            prop_assert!(to.stats().allowed + to.stats().denied <= counts.decisions);
        }

        #[test]
        fn other_bytes_are_no_file(bytes in prop::collection::vec(any::<u8>(), 1..300)) {
            let (to, taken) = taken(&bytes, true);
            // The shortest record is a tenant without a name.
            prop_assert!(taken.is_err() || bytes.len() >= 17);
            prop_assert!(to.stats().allowed + to.stats().denied < 9);
        }
    }
}
