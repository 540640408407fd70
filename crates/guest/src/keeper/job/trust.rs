//! The certificates that the job's programs trust: a file beside its script, and the variables that name it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

const NAME: &str = "trust.pem";
const WGET_SETTINGS: &str = "wgetrc";

/// OpenSSL and Python, requests, pip, Node, git, curl, cargo and Deno each have their own.
const VARIABLES: [&str; 8] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CURL_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "DENO_CERT",
];

/// Writes the file and names it in the environment, unless the job sets a variable itself.
pub(super) fn write(folder: &Path, pem: &str, env: &mut BTreeMap<String, String>) -> io::Result<()> {
    let path = folder.join(NAME);
    fs::write(&path, pem)?;
    // wget has no variable for certificates, but one for its settings.
    let settings = folder.join(WGET_SETTINGS);
    fs::write(&settings, format!("ca_certificate = {}\n", path.display()))?;
    env.entry("WGETRC".to_owned()).or_insert_with(|| settings.to_string_lossy().into_owned());
    for variable in VARIABLES {
        env.entry(variable.to_owned()).or_insert_with(|| path.to_string_lossy().into_owned());
    }
    Ok(())
}
