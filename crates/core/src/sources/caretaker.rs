//! The thread that lets go of what has waited long enough, for as long as anything waits.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::quarantine;
use crate::loaded;

/// How often it looks. The room that is left may become less at any time.
const PAUSE: Duration = Duration::from_secs(1);

static RUNS: Mutex<bool> = Mutex::new(false);

/// Has the thread come, after something was put away. False where the system has none.
pub fn call() -> bool {
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    if !*runs {
        loaded::stay();
        let caretaker = thread::Builder::new().name("ztensor-waiting".to_owned()).stack_size(256 << 10);
        *runs = caretaker.spawn(look_after).is_ok();
    }
    *runs
}

fn nothing_waits() -> bool {
    #[cfg(target_os = "linux")]
    if !super::spare::is_empty() {
        return false;
    }
    quarantine::is_empty()
}

fn look_after() {
    loop {
        thread::sleep(PAUSE);
        let now = Instant::now();
        #[cfg(target_os = "linux")]
        super::spare::let_go_of_old(now);
        quarantine::let_go_of_old(now);
        // Whoever puts something away from here on finds that this thread runs no more, and calls the next one.
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        if nothing_waits() {
            *runs = false;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_comes_when_it_is_called() {
        let runs = || *RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        // Where nothing waits it goes after a second, which may pass between the two.
        assert!((0..1000).any(|_| call() && runs()));
    }
}
