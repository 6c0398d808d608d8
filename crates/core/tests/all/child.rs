//! Tests whose cases need a process of their own: each case starts this program again for the one test.

use std::env;
use std::process::{Command, Output};

const CASE: &str = "ZTENSOR_TEST_CASE";

/// The code with which a case ends the process if it does not return to the test runner.
#[cfg(unix)]
pub const DONE: i32 = 77;

/// The name of the case that this process was started for.
pub fn case() -> Option<String> {
    env::var(CASE).ok()
}

/// The function of the case that this process was started for.
pub fn function(cases: &[(&str, fn())]) -> Option<fn()> {
    let wanted = case()?;
    Some(cases.iter().find(|(name, _)| *name == wanted).unwrap().1)
}

/// Starts this program for one case of a test.
pub fn command(test: &str, case: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact"]).env(CASE, case);
    command
}

/// Whether the test ran in that process, and passed. If no test has that name, the process succeeds too.
pub fn passed(output: &Output) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed")
}
