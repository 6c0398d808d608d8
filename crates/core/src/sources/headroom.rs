//! How much memory and how many addresses may be retained without being in use. V8 ends the process if the system refuses it memory.
#![forbid(unsafe_code)]

/// What the system may limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Addresses alone (`RLIMIT_AS`).
    Addresses,
    /// Private memory, too (`RLIMIT_DATA`).
    #[cfg(target_os = "linux")]
    Data,
}

/// Bytes that may be retained, given those that are: a quarter of what would be free without them.
pub fn allowance(kind: Kind, retained: usize) -> usize {
    let (addresses, data) = limits::found(kind);
    let quarter = |limit: Option<limits::Limit>| {
        limit.map_or(usize::MAX, |limit| limit.free().saturating_add(retained) / 4)
    };
    quarter(addresses).min(quarter(data))
}

/// Whether the system limits how much the process may take.
pub fn is_limited() -> bool {
    #[cfg(target_os = "linux")]
    let kind = Kind::Data;
    #[cfg(not(target_os = "linux"))]
    let kind = Kind::Addresses;
    let (addresses, data) = limits::found(kind);
    addresses.is_some() || data.is_some()
}

#[cfg(unix)]
pub use limits::counts_writable;

#[cfg(unix)]
mod limits {
    use rustix::process::{Resource, getrlimit};

    use super::Kind;

    /// What may be used, and what is.
    pub struct Limit {
        most: usize,
        used: usize,
    }

    impl Limit {
        pub fn free(&self) -> usize {
            self.most.saturating_sub(self.used)
        }
    }

    fn limit(resource: Resource) -> Option<usize> {
        getrlimit(resource).current.map(|most| usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// The limits of addresses and of data; `None` for what is not limited.
    pub fn found(kind: Kind) -> (Option<Limit>, Option<Limit>) {
        // What 32 bits can address, less what systems keep for themselves.
        let all = if usize::BITS < 64 { Some(2 << 30) } else { None };
        let addresses = [limit(Resource::As), all].into_iter().flatten().min();
        #[cfg(target_os = "linux")]
        let data = if kind == Kind::Data { limit(Resource::Data) } else { None };
        #[cfg(not(target_os = "linux"))]
        let data = match kind {
            Kind::Addresses => None,
        };
        if addresses.is_none() && data.is_none() {
            return (None, None);
        }
        let used = used();
        let of = |most: Option<usize>, used: usize| most.map(|most| Limit { most, used });
        (of(addresses, used.0), of(data, used.1))
    }

    /// Bytes of addresses and of data in use; all where the system does not say.
    #[cfg(target_os = "linux")]
    fn used() -> (usize, usize) {
        // In pages: all, and five numbers on data.
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut pages = statm.split(' ').map(|number| number.parse::<usize>().unwrap_or(usize::MAX));
        let mut bytes =
            |at: usize| pages.nth(at).unwrap_or(usize::MAX).saturating_mul(rustix::param::page_size());
        (bytes(0), bytes(4))
    }

    /// Not known: a quarter of the limit may be retained.
    #[cfg(not(target_os = "linux"))]
    fn used() -> (usize, usize) {
        (0, 0)
    }

    /// Whether private memory that can be written counts as used before anybody writes to it: where its size is limited, and
    /// where the system promises no more than it has. `MAP_NORESERVE` changes nothing there.
    #[cfg(target_os = "linux")]
    pub fn counts_writable() -> bool {
        use std::sync::OnceLock;

        static STRICT: OnceLock<bool> = OnceLock::new();
        // Where it cannot be read now, it is read the next time.
        let strict = STRICT.get().copied().or_else(|| {
            let mode = std::fs::read("/proc/sys/vm/overcommit_memory").ok()?;
            Some(*STRICT.get_or_init(|| mode.starts_with(b"2")))
        });
        strict == Some(true) || limit(Resource::Data).is_some()
    }

    #[cfg(not(target_os = "linux"))]
    pub fn counts_writable() -> bool {
        false
    }
}

#[cfg(not(unix))]
mod limits {
    use super::Kind;

    /// A limit that cannot exist.
    pub enum Limit {}

    impl Limit {
        pub fn free(&self) -> usize {
            match *self {}
        }
    }

    /// Only their number of bits limits reserved addresses.
    pub fn found(kind: Kind) -> (Option<Limit>, Option<Limit>) {
        match kind {
            Kind::Addresses => (None, None),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{Resource, getrlimit};

    use super::*;

    #[test]
    fn what_can_be_written_counts_where_the_system_says_so() {
        let strict = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap().trim() == "2";
        assert_eq!(counts_writable(), strict || getrlimit(Resource::Data).current.is_some());
    }
}
