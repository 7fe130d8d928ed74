//! Counters of the process before this one, which go on here: a scraper sees no step back, and no event is missing.
//!
//! A sample is known by its name and its labels, as they are written. A process gives the next one the values of all samples
//! of counters and histograms when that is about to serve, and at its own end what they have grown by since. The next one
//! adds them to its own.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};

use super::value::Value;
use crate::sync::{Mutex, lock};

/// Bytes and samples that are taken at most. Arbitrary: a gateway with 250 routes has some 20,000 samples of 100 bytes.
const BYTES: u64 = 16 << 20;
const SAMPLES: usize = 100_000;

/// Samples with their values, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Samples {
    rows: Vec<(Box<str>, Value)>,
    /// The places of samples.
    places: HashMap<Box<str>, usize>,
    /// The places of the samples of a name.
    of_name: HashMap<Box<str>, Vec<usize>>,
}

impl Samples {
    fn get(&self, sample: &str) -> Option<Value> {
        self.places.get(sample).map(|place| self.rows[*place].1)
    }

    /// Adds a sample, unless it is there.
    pub(super) fn add(&mut self, sample: &str, value: Value) {
        let place = self.rows.len();
        if self.places.contains_key(sample) {
            return;
        }
        let name = sample.split('{').next().unwrap_or_default();
        self.of_name.entry(name.into()).or_default().push(place);
        self.places.insert(sample.into(), place);
        self.rows.push((sample.into(), value));
    }
}

/// What another process has counted, and what it is told of this one.
#[derive(Debug, Default)]
pub(super) struct Carried {
    taken: Mutex<Samples>,
    /// What the next process was told.
    told: Mutex<Samples>,
}

/// Which samples of [`Carried`] are in an exposition already.
#[derive(Debug, Default)]
pub(super) struct Written(Vec<bool>);

impl Written {
    /// Notes a place. Whether it was not noted before.
    fn note(&mut self, place: usize) -> bool {
        if self.0.len() <= place {
            self.0.resize(place + 1, false);
        }
        !std::mem::replace(&mut self.0[place], true)
    }
}

impl Carried {
    /// The value of a sample with what another process has counted of it.
    pub(super) fn sum(&self, sample: &str, own: Value, written: &mut Written) -> Value {
        let taken = lock(&self.taken);
        let Some(place) = taken.places.get(sample) else { return own };
        written.note(*place);
        own.plus(taken.rows[*place].1)
    }

    /// Calls `see` with each sample of a family that this process has not written itself, in their order.
    pub(super) fn rest(&self, family: &str, written: &mut Written, mut see: impl FnMut(&str, Value)) {
        let taken = lock(&self.taken);
        let names = ["", "_bucket", "_sum", "_count"].map(|suffix| format!("{family}{suffix}"));
        let of_name = |name: &String| taken.of_name.get(name.as_str());
        let mut places: Vec<usize> = names.iter().filter_map(of_name).flatten().copied().collect();
        places.sort_unstable();
        for place in places {
            if written.note(place) {
                let (sample, value) = &taken.rows[place];
                see(sample, *value);
            }
        }
    }

    /// Writes samples: `anew` all of them, and else by how much they have grown since the last call. `found`: all of this
    /// process. Returns how many were written.
    pub(super) fn write(&self, mut found: Samples, anew: bool, out: &mut impl Write) -> io::Result<usize> {
        // Families that this process does not have go on in the next one.
        for (sample, value) in &lock(&self.taken).rows {
            found.add(sample, *value);
        }
        let mut told = lock(&self.told);
        if anew {
            *told = Samples::default();
        }
        let mut count = 0;
        for (sample, value) in &found.rows {
            let growth = match told.get(sample) {
                Some(told) => value.minus(told),
                // All of a new histogram, though some of its buckets are empty.
                None => *value,
            };
            if !growth.is_zero() || told.get(sample).is_none() {
                writeln!(out, "{sample} {growth}")?;
                count += 1;
            }
        }
        out.flush()?;
        *told = found;
        Ok(count)
    }

    /// Adds samples that [`Carried::write`] has written.
    ///
    /// # Errors
    /// They cannot be read, or are no samples. What comes before that is added.
    pub(super) fn take(&self, from: impl Read) -> io::Result<()> {
        let mut taken = lock(&self.taken);
        for line in BufReader::new(from.take(BYTES)).lines() {
            let line = line?;
            let sample =
                line.rsplit_once(' ').and_then(|(sample, value)| Some((sample, Value::read(value)?)));
            let Some((sample, value)) = sample else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is no sample"));
            };
            if let Some(place) = taken.places.get(sample).copied() {
                let known = &mut taken.rows[place].1;
                *known = known.plus(value);
            } else if taken.rows.len() < SAMPLES {
                taken.add(sample, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples(values: &[(&str, Value)]) -> Samples {
        let mut samples = Samples::default();
        for (sample, value) in values {
            samples.add(sample, *value);
        }
        samples
    }

    fn sum(carried: &Carried, sample: &str, own: Value) -> Value {
        carried.sum(sample, own, &mut Written::default())
    }

    fn written(carried: &Carried, anew: bool, found: &[(&str, Value)]) -> Vec<u8> {
        let mut file = Vec::new();
        carried.write(samples(found), anew, &mut file).unwrap();
        file
    }

    #[test]
    fn what_one_process_has_counted_is_told_once_and_added_to_what_the_next_one_counts() {
        let (first, second) = (Carried::default(), Carried::default());
        let (count, seconds) = ("a_total{route=\"x y\"}", "b_sum");
        // To a process that did not come to serve.
        written(&first, true, &[(count, Value::Whole(2))]);
        second
            .take(&*written(&first, true, &[(count, Value::Whole(3)), (seconds, Value::Real(0.5))]))
            .unwrap();
        assert_eq!(sum(&second, count, Value::Whole(1)), Value::Whole(4));
        assert_eq!(sum(&second, seconds, Value::Real(0.25)), Value::Real(0.75));
        assert_eq!(sum(&second, "c_total", Value::Whole(1)), Value::Whole(1));
        let later = [(count, Value::Whole(5)), (seconds, Value::Real(0.5))];
        second.take(&*written(&first, false, &later)).unwrap();
        assert_eq!(sum(&second, count, Value::Whole(1)), Value::Whole(6));
        assert_eq!(written(&first, false, &later), b"");
    }

    #[test]
    fn what_a_process_has_not_counted_itself_goes_on_in_the_one_after_it() {
        let (first, second, third) = (Carried::default(), Carried::default(), Carried::default());
        second.take(&*written(&first, true, &[("a_total", Value::Whole(3))])).unwrap();
        third.take(&*written(&second, true, &[("b_total", Value::Whole(2))])).unwrap();
        assert_eq!(sum(&third, "a_total", Value::Whole(1)), Value::Whole(4));
        assert_eq!(sum(&third, "b_total", Value::Whole(1)), Value::Whole(3));
    }

    #[test]
    fn the_samples_of_a_family_that_this_process_has_not_written_come_in_their_order() {
        let carried = Carried::default();
        let names =
            ["a_bucket{le=\"1.0\"}", "a_bucket{le=\"+Inf\"}", "a_sum", "a_count", "a_total", "ab_sum"];
        let found = names.map(|name| (name, Value::Whole(0)));
        carried.take(&*written(&Carried::default(), true, &found)).unwrap();
        let mut written = Written::default();
        assert_eq!(carried.sum("a_sum", Value::Whole(1), &mut written), Value::Whole(1));
        let mut rest = Vec::new();
        carried.rest("a", &mut written, |sample, _| rest.push(sample.to_owned()));
        assert_eq!(rest, [names[0], names[1], names[3]]);
        carried.rest("a", &mut written, |sample, _| panic!("{sample} came twice"));
    }

    #[test]
    fn no_more_samples_are_taken_than_there_may_be() {
        let mut file = Vec::new();
        for number in 0..=SAMPLES {
            writeln!(file, "a_total{{n=\"{number}\"}} 1").unwrap();
        }
        let carried = Carried::default();
        carried.take(&*file).unwrap();
        assert_eq!(lock(&carried.taken).rows.len(), SAMPLES);
    }

    proptest! {
        #[test]
        fn values_are_read_as_they_were_written(whole: u64, real in 0.0..1e12) {
            let carried = Carried::default();
            let found = [("a", Value::Whole(whole)), ("b", Value::Real(real))];
            carried.take(&*written(&Carried::default(), true, &found)).unwrap();
            prop_assert_eq!(sum(&carried, "a", Value::Whole(0)), Value::Whole(whole));
            prop_assert_eq!(sum(&carried, "b", Value::Real(0.0)), Value::Real(real));
        }

        #[test]
        fn other_bytes_are_an_error_or_samples(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let carried = Carried::default();
            if carried.take(&*bytes).is_ok() {
                prop_assert!(lock(&carried.taken).rows.len() <= bytes.split(|byte| *byte == b'\n').count());
            }
        }
    }
}
