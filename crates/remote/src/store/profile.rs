//! The files in which AWS tools store credentials and regions, by profile name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::options::Options;

/// Maximum bytes read of such a file.
const MAX_BYTES: u64 = 1 << 20;

/// Returns access key, secret key and session token of the current profile.
pub fn credentials(options: &Options) -> Option<(String, String, Option<String>)> {
    let file = file(options, "AWS_SHARED_CREDENTIALS_FILE", "credentials")?;
    let values = section(&file, &[&name(options)]).or_else(|| {
        let file = self::file(options, "AWS_CONFIG_FILE", "config")?;
        section(&file, &[&name(options), &format!("profile {}", name(options))])
    })?;
    let value = |key: &str| values.get(key).filter(|value| !value.is_empty()).cloned();
    Some((value("aws_access_key_id")?, value("aws_secret_access_key")?, value("aws_session_token")))
}

/// Returns a setting of the current profile, such as its region.
pub fn setting(options: &Options, key: &str) -> Option<String> {
    let config = || Some((file(options, "AWS_CONFIG_FILE", "config")?, format!("profile {}", name(options))));
    let shared = || Some((file(options, "AWS_SHARED_CREDENTIALS_FILE", "credentials")?, name(options)));
    [config(), shared()].into_iter().flatten().find_map(|(file, profile)| {
        section(&file, &[&name(options), &profile])?.remove(key).filter(|value| !value.is_empty())
    })
}

/// Ways to get credentials that are not supported, and what to run instead.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("credential_process", "a program (credential_process)"),
    ("sso_session", "IAM Identity Center (sso_session)"),
    ("sso_start_url", "IAM Identity Center (sso_start_url)"),
    ("login_session", "aws login (login_session)"),
    ("role_arn", "another role (role_arn)"),
    ("source_profile", "another profile (source_profile)"),
    ("web_identity_token_file", "a web identity (web_identity_token_file)"),
];

/// Returns why the current profile gives no credentials, and what to do; `None` if it says nothing of credentials.
pub fn unsupported(options: &Options) -> Option<String> {
    let (_, how) = UNSUPPORTED.iter().find(|(key, _)| setting(options, key).is_some())?;
    let profile = name(options);
    Some(format!(
        "the AWS profile {profile:?} gets its credentials from {how}, which is not supported: run \
         `eval \"$(aws configure export-credentials --profile {profile} --format env)\"` first, which sets AWS_ACCESS_KEY_ID, \
         AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
    ))
}

fn name(options: &Options) -> String {
    options.variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned())
}

/// Returns the text of the file that a variable names, or of the default file.
fn file(options: &Options, variable: &str, default: &str) -> Option<String> {
    let home =
        || Some(options.path("HOME").or_else(|| options.path("USERPROFILE"))?.join(".aws").join(default));
    let path: PathBuf = options.path(variable).or_else(home)?;
    let is_small = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_BYTES);
    if !is_small(&path) {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// Returns the keys of the first section with one of the names.
fn section(text: &str, names: &[&str]) -> Option<HashMap<String, String>> {
    let mut found: Option<HashMap<String, String>> = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            if found.is_some() {
                break;
            }
            found = names.contains(&name.0.trim()).then(HashMap::new);
        } else if let Some(found) = &mut found
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            found.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# mine\n[other]\naws_access_key_id = A\n\n[default]\n aws_access_key_id=B\naws_secret_access_key = a=b==\n; no\n[profile x]\nregion = eu\n";

    #[test]
    fn sections_are_found_by_name() {
        let default = section(TEXT, &["default"]).unwrap();
        assert_eq!(default["aws_access_key_id"], "B");
        assert_eq!(default["aws_secret_access_key"], "a=b==");
        assert_eq!(section(TEXT, &["other"]).unwrap()["aws_access_key_id"], "A");
        assert_eq!(section(TEXT, &["x", "profile x"]).unwrap()["region"], "eu");
        assert!(section(TEXT, &["none"]).is_none());
    }

    #[test]
    fn the_profile_of_the_environment_is_read() {
        let path = std::env::temp_dir().join(format!("ztensor-profile-{}", std::process::id()));
        std::fs::write(&path, "[a]\naws_access_key_id=I\naws_secret_access_key=S\naws_session_token=T\n")
            .unwrap();
        let text = |text: &str| text.to_owned();
        let environment = HashMap::from([
            (text("AWS_SHARED_CREDENTIALS_FILE"), text(path.to_str().unwrap())),
            (text("AWS_PROFILE"), text("a")),
        ]);
        let options = Options { environment: Some(environment), ..Options::default() };
        assert_eq!(credentials(&options), Some((text("I"), text("S"), Some(text("T")))));
        assert_eq!(unsupported(&options), None);
        let other = Options { environment: Some(HashMap::new()), ..Options::default() };
        assert_eq!(credentials(&other), None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_a_profile_cannot_give_is_named_with_what_to_run() {
        let path = std::env::temp_dir().join(format!("ztensor-profiles-{}", std::process::id()));
        std::fs::write(
            &path,
            "[profile s]\nsso_session = x\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:9000\n\
             [profile p]\ncredential_process = /bin/x\n[profile r]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = s\n",
        )
        .unwrap();
        let of = |profile: &str| {
            let variables = [("AWS_CONFIG_FILE", path.to_str().unwrap()), ("AWS_PROFILE", profile)];
            let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            Options { environment: Some(environment.into()), ..Options::default() }
        };
        for (profile, how) in [("s", "sso_session"), ("p", "credential_process"), ("r", "role_arn")] {
            let message = unsupported(&of(profile)).unwrap();
            assert!(
                message.contains(how) && message.contains("aws configure export-credentials"),
                "{message}"
            );
        }
        assert_eq!(setting(&of("s"), "endpoint_url").as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(setting(&of("s"), "region").as_deref(), Some("eu-west-1"));
        assert_eq!(setting(&of("none"), "region"), None);
        std::fs::remove_file(path).unwrap();
    }
}
