//! `ztensor-binaries TARGET GLIBC MAX_BYTES FILE`: whether FILE is an addon that loads on the machines of TARGET. Prints its size, its
//! libraries and its newest symbol of glibc, or every reason why it must not be published, and exits with 1 then.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use ztensor_binaries::{Target, Version, check};

const USAGE: &str = "usage: ztensor-binaries TARGET GLIBC MAX_BYTES FILE";

fn run(arguments: &[String]) -> Result<String, Vec<String>> {
    let [target, glibc, max_bytes, file] = arguments else { return Err(vec![USAGE.into()]) };
    let one = |reason: String| vec![format!("{file}: {reason}")];
    let target = Target::new(target).ok_or_else(|| one(format!("no rules for the target {target}")))?;
    let glibc = Version::parse(glibc).ok_or_else(|| vec![USAGE.into()])?;
    let max_bytes = max_bytes.parse().map_err(|_| vec![USAGE.into()])?;
    let bytes = std::fs::read(file).map_err(|error| one(error.to_string()))?;
    let found = check(&bytes, &target, glibc, max_bytes);
    found.map(|facts| facts.to_string()).map_err(|reasons| reasons.into_iter().flat_map(one).collect())
}

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(facts) => {
            println!("{facts}");
            ExitCode::SUCCESS
        }
        Err(reasons) => {
            for reason in reasons {
                eprintln!("{reason}");
            }
            ExitCode::FAILURE
        }
    }
}
