//! Panics on demand, for tests. A normal build has none of them.
#![forbid(unsafe_code)]

/// Panics where the environment's `ZTENSOR_PANIC` names `point`.
#[cfg(feature = "fault-injection")]
pub fn panic_at(point: &str) {
    assert!(std::env::var("ZTENSOR_PANIC").as_deref() != Ok(point), "injected into {point}");
}

#[cfg(not(feature = "fault-injection"))]
#[inline(always)]
#[allow(clippy::inline_always)] // nothing is left of the call
pub fn panic_at(_place: &str) {}
