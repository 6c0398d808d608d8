//! How much may wait unused, beside what is in use: V8 ends the process where the system refuses it memory.
#![allow(unsafe_code)]

use std::io::{ErrorKind, Result};

/// What the system may limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Addresses alone (`RLIMIT_AS`).
    Addresses,
    /// Memory of the process's own too (`RLIMIT_DATA`).
    #[cfg(target_os = "linux")]
    Data,
}

/// Bytes that may wait where so many do already: a quarter of what would be free without them.
pub fn that_may_wait(kind: Kind, waiting: usize) -> usize {
    let (addresses, data) = limits::found(kind);
    let quarter = |limit: Option<limits::Limit>| {
        limit.map_or(usize::MAX, |limit| limit.free().saturating_add(waiting) / 4)
    };
    quarter(addresses).min(quarter(data))
}

/// Maps something. Where there is no room for it, it gets that of all that waits.
pub fn made_for<T>(map: impl Fn() -> Result<T>) -> Result<T> {
    map().or_else(|error| {
        if error.kind() != ErrorKind::OutOfMemory {
            return Err(error);
        }
        super::quarantine::let_go();
        #[cfg(target_os = "linux")]
        super::spare::let_go();
        map()
    })
}

#[cfg(unix)]
pub use limits::counts_writable;

#[cfg(unix)]
mod limits {
    use std::mem;

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

    #[cfg(target_os = "linux")]
    type Resource = libc::__rlimit_resource_t;
    #[cfg(not(target_os = "linux"))]
    type Resource = libc::c_int;

    fn limit(resource: Resource) -> Option<usize> {
        // SAFETY: zeros are a valid limit, which the system replaces.
        let limit = unsafe {
            let mut limit: libc::rlimit = mem::zeroed();
            (libc::getrlimit(resource, &raw mut limit) == 0).then_some(limit)
        }?;
        (limit.rlim_cur != libc::RLIM_INFINITY).then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
    }

    /// The limits of addresses and of data; `None` for what is not limited.
    pub fn found(kind: Kind) -> (Option<Limit>, Option<Limit>) {
        // What 32 bits can address, less what systems keep for themselves.
        let all = if usize::BITS < 64 { Some(2 << 30) } else { None };
        let addresses = [limit(libc::RLIMIT_AS), all].into_iter().flatten().min();
        #[cfg(target_os = "linux")]
        let data = if kind == Kind::Data { limit(libc::RLIMIT_DATA) } else { None };
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
        let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut pages = told.split(' ').map(|number| number.parse::<usize>().unwrap_or(usize::MAX));
        // SAFETY: a plain question to the system.
        let page_size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let mut bytes = |at: usize| pages.nth(at).unwrap_or(usize::MAX).saturating_mul(page_size);
        (bytes(0), bytes(4))
    }

    /// Not known: a quarter of all may wait.
    #[cfg(not(target_os = "linux"))]
    fn used() -> (usize, usize) {
        (0, 0)
    }

    /// Whether private memory that can be written counts as used before anybody writes to it: where its size is limited, and
    /// where the system promises no more than it has. `MAP_NORESERVE` changes nothing there.
    pub fn counts_writable() -> bool {
        #[cfg(target_os = "linux")]
        {
            use std::sync::OnceLock;

            static STRICT: OnceLock<bool> = OnceLock::new();
            let strict =
                || std::fs::read("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.starts_with(b"2"));
            *STRICT.get_or_init(strict) || limit(libc::RLIMIT_DATA).is_some()
        }
        #[cfg(not(target_os = "linux"))]
        false
    }
}

#[cfg(not(unix))]
mod limits {
    use super::Kind;

    /// Of what the system does not limit there is none.
    pub enum Limit {}

    impl Limit {
        pub fn free(&self) -> usize {
            match *self {}
        }
    }

    /// Reserved addresses are limited by their number of bits alone there.
    pub fn found(kind: Kind) -> (Option<Limit>, Option<Limit>) {
        match kind {
            Kind::Addresses => (None, None),
        }
    }
}
