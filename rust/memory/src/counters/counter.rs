//! One count, and sets of counts that are read and added together.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count to which any thread adds, and which any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it.
    #[inline]
    pub fn add(&self, count: u64) {
        // Relaxed, as in `get`: a count orders nothing.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The count as it is now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares a snapshot of counts, `u64` each, that can be added to another. With `from Counters`, also the struct of
/// [`Counter`]s of the same names, whose `read` makes the snapshot.
///
/// ```
/// mod counts {
///     penstock_memory::counts! {
///         /// What has been counted so far.
///         pub struct Counted from Counts {
///             /// Events that were published.
///             events,
///         }
///     }
/// }
/// ```
#[macro_export]
macro_rules! counts {
    (
        $(#[$about:meta])*
        $visible:vis struct $Counted:ident $(from $Counters:ident)? {
            $($(#[$field_about:meta])* $field:ident,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        $visible struct $Counted {
            $($(#[$field_about])* pub $field: u64,)*
        }

        impl ::std::ops::AddAssign<&Self> for $Counted {
            fn add_assign(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }
        }

        $crate::counts! { @counters $($Counters)? $Counted { $($field,)* } }
    };
    (@counters $Counted:ident { $($field:ident,)* }) => {};
    (@counters $Counters:ident $Counted:ident { $($field:ident,)* }) => {
        /// The counters.
        #[derive(Debug, Default)]
        pub(super) struct $Counters {
            $(pub(super) $field: $crate::counters::Counter,)*
        }

        impl $Counters {
            /// The counts as they are now.
            pub(super) fn read(&self) -> $Counted {
                $Counted { $($field: self.$field.get(),)* }
            }
        }
    };
}

#[cfg(all(test, not(loom)))]
mod tests {
    mod declared {
        crate::counts! {
            /// A snapshot.
            pub(super) struct Counted from Counts {
                /// One.
                one,
                /// Other.
                other,
            }
        }
    }

    #[test]
    fn counters_are_read_and_snapshots_are_added() {
        let counts = declared::Counts::default();
        counts.one.add(2);
        counts.other.add(3);
        counts.one.add(1);
        let mut sums = counts.read();
        assert_eq!(sums, declared::Counted { one: 3, other: 3 });
        sums += &counts.read();
        assert_eq!(sums, declared::Counted { one: 6, other: 6 });
    }
}
