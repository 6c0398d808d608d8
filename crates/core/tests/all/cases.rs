//! How many random cases a property is tried with. Included by path in the tests of other crates.

/// Returns `count` in CI, and a quarter of it elsewhere. `PROPTEST_CASES` scales it: 256 is what CI runs.
pub fn cases(count: u32) -> u32 {
    let part = match std::env::var("PROPTEST_CASES").map(|cases| cases.parse::<u32>()) {
        Ok(Ok(part)) => part,
        _ if std::env::var_os("CI").is_some() => 256,
        _ => 64,
    };
    u32::try_from(u64::from(count) * u64::from(part) / 256).unwrap_or(u32::MAX).max(5)
}
