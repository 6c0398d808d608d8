//! Limits how much memory and address space may be retained without being used. V8 ends the process if the system refuses it memory.
#![forbid(unsafe_code)]

/// The resource that the system may limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LimitedMemory {
    /// Address space only (`RLIMIT_AS`).
    Addresses,
    /// Private memory as well (`RLIMIT_DATA`).
    #[cfg(target_os = "linux")]
    Data,
}

/// Returns the bytes that may be retained, given those already retained: a quarter of what would be free without them.
pub fn allowance(kind: LimitedMemory, retained: usize) -> usize {
    let (addresses, data) = limits::found(kind);
    let quarter = |limit: Option<limits::Limit>| {
        limit.map_or(usize::MAX, |limit| limit.free().saturating_add(retained) / 4)
    };
    quarter(addresses).min(quarter(data))
}

/// Returns whether the system limits the memory of the process.
pub fn is_limited() -> bool {
    #[cfg(target_os = "linux")]
    let kind = LimitedMemory::Data;
    #[cfg(not(target_os = "linux"))]
    let kind = LimitedMemory::Addresses;
    let (addresses, data) = limits::found(kind);
    addresses.is_some() || data.is_some()
}

#[cfg(unix)]
pub use limits::counts_writable;

#[cfg(unix)]
mod limits {
    use rustix::process::{Resource, getrlimit};

    use super::LimitedMemory;

    /// A limit and the current use.
    pub struct Limit {
        max: usize,
        used: usize,
    }

    impl Limit {
        pub fn free(&self) -> usize {
            self.max.saturating_sub(self.used)
        }
    }

    fn limit(resource: Resource) -> Option<usize> {
        getrlimit(resource).current.map(|max| usize::try_from(max).unwrap_or(usize::MAX))
    }

    /// Returns the limits of address space and of data; `None` if unlimited.
    pub fn found(kind: LimitedMemory) -> (Option<Limit>, Option<Limit>) {
        // The 32-bit address space, less what systems reserve for themselves.
        let all = if usize::BITS < 64 { Some(2 << 30) } else { None };
        let addresses = [limit(Resource::As), all].into_iter().flatten().min();
        #[cfg(target_os = "linux")]
        let data = if kind == LimitedMemory::Data { limit(Resource::Data) } else { None };
        #[cfg(not(target_os = "linux"))]
        let data = match kind {
            LimitedMemory::Addresses => None,
        };
        if addresses.is_none() && data.is_none() {
            return (None, None);
        }
        let used = used();
        let of = |max: Option<usize>, used: usize| max.map(|max| Limit { max, used });
        (of(addresses, used.0), of(data, used.1))
    }

    /// Returns the bytes of address space and of data in use; the maximum if unknown.
    #[cfg(target_os = "linux")]
    fn used() -> (usize, usize) {
        // In pages: the total, and the sixth number is data.
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut pages = statm.split(' ').map(|number| number.parse::<usize>().unwrap_or(usize::MAX));
        let mut bytes =
            |at: usize| pages.nth(at).unwrap_or(usize::MAX).saturating_mul(rustix::param::page_size());
        (bytes(0), bytes(4))
    }

    /// Unknown: a quarter of the limit may be retained.
    #[cfg(not(target_os = "linux"))]
    fn used() -> (usize, usize) {
        (0, 0)
    }

    /// Returns whether writable private memory counts as used before it is written: if its size is limited, and if the system does not
    /// overcommit. `MAP_NORESERVE` does not change that.
    #[cfg(target_os = "linux")]
    pub fn counts_writable() -> bool {
        use std::sync::OnceLock;

        static STRICT: OnceLock<bool> = OnceLock::new();
        // If it cannot be read now, it is read the next time.
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
    use super::LimitedMemory;

    /// A limit that cannot exist.
    pub enum Limit {}

    impl Limit {
        pub fn free(&self) -> usize {
            match *self {}
        }
    }

    /// Reserved addresses are limited only by the address width.
    pub fn found(kind: LimitedMemory) -> (Option<Limit>, Option<Limit>) {
        match kind {
            LimitedMemory::Addresses => (None, None),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{Resource, getrlimit};

    use super::*;

    #[test]
    fn writable_memory_counts_if_the_system_reports_it() {
        let strict = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap().trim() == "2";
        assert_eq!(counts_writable(), strict || getrlimit(Resource::Data).current.is_some());
    }
}
