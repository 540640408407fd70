//! Settings of the host that a build uses: mirrors, proxies, certificates, settings of pip and npm.
//!
//! All of them are put into one directory that is mounted read-only into the root while a step runs. Only
//! settings about the network are taken: a host's other habits (`user = true`, `nodedir`) have no place in an
//! image. `marks` are the strings by which `verify` finds settings that stayed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::snapshot::{self, ArchiveSnapshot};
use super::sources::{self, Keyring, PackageSource};

/// Path at which `host/enter.sh` mounts the inputs inside the root.
pub(super) const INPUTS: &str = "/run/inputs";

/// Variables that steps get unchanged, in either case.
const VARIABLES: [&str; 12] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "pip_index_url",
    "pip_extra_index_url",
    "pip_trusted_host",
    "pip_proxy",
    "pip_default_timeout",
    "pip_retries",
    "npm_config_registry",
    "npm_config_strict_ssl",
];

/// Variables that name a file of certificates.
const CERTIFICATE_VARIABLES: [&str; 7] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "npm_config_cafile",
];

const PIP_KEYS: [&str; 6] = ["index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries"];
const NPM_KEYS: [&str; 5] = ["registry", "proxy", "https-proxy", "noproxy", "strict-ssl"];
const APT_KEYS: [&str; 5] = [
    "Acquire::http::",
    "Acquire::https::",
    "Acquire::Check-Valid-Until",
    "Acquire::Retries",
    "Acquire::ForceIPv4",
];

/// The host's settings, as `main` reads them.
#[derive(Debug, Clone, Default)]
pub struct HostSettings {
    /// Environment variables. A build ignores those that do not concern it.
    pub variables: BTreeMap<String, String>,
    /// Home of the user who builds, for settings of pip and npm.
    pub home: Option<PathBuf>,
}

/// Inputs that were staged for one build.
pub(super) struct StagedInputs {
    pub(super) inputs: PathBuf,
    /// Package sources and options for tools that run outside the root.
    pub(super) sources: PathBuf,
    pub(super) apt_options: PathBuf,
    pub(super) variables: Vec<(String, String)>,
    /// Strings that the finished image must not contain.
    pub(super) marks: Vec<String>,
}

impl HostSettings {
    /// Collects the inputs below `directory`, which must exist.
    pub(super) fn stage(
        &self,
        directory: &Path,
        suite: &str,
        snapshot: Option<&ArchiveSnapshot>,
    ) -> io::Result<StagedInputs> {
        let inputs = directory.join("inputs");
        fs::create_dir_all(inputs.join("keyrings"))?;
        let chosen = match snapshot {
            Some(snapshot) => snapshot.sources(suite),
            None => sources::choose(&sources::of_host(Path::new("/etc/apt")), suite),
        };
        let sources = directory.join("sources.list");
        write_sources(&chosen, &inputs, &sources)?;

        let certificates = self.certificates();
        fs::write(inputs.join("ca-bundle.crt"), certificates.concat())?;
        let mut options = apt_options();
        options.extend(snapshot.into_iter().flat_map(|_| ArchiveSnapshot::apt_options()));
        let apt_options = directory.join("apt-options");
        fs::write(&apt_options, outside_options(&options, &inputs))?;
        fs::write(inputs.join("apt.conf"), inside_config(&options))?;
        copy_apt_secrets(&inputs)?;
        let mut marks = self.write_client_settings(&inputs)?;

        marks.extend(chosen.iter().map(|source| source.uri.clone()));
        marks.extend(options.iter().filter_map(|option| quoted_address(option)));
        let variables = self.variables();
        marks.extend(variables.iter().map(|(_, value)| value.clone()));
        marks.extend(extra_certificates().iter().filter_map(|pem| certificate_mark(pem)));
        Ok(StagedInputs { inputs, sources, apt_options, variables, marks: telling(marks) })
    }

    fn variables(&self) -> Vec<(String, String)> {
        let wanted = |name: &str| VARIABLES.contains(&name.to_ascii_lowercase().as_str());
        let pairs = self.variables.iter().filter(|(name, _)| wanted(name));
        pairs.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the host's bundle, its own additions, and the files that its clients trust.
    fn certificates(&self) -> Vec<String> {
        let named =
            CERTIFICATE_VARIABLES.iter().filter_map(|name| self.variables.get(*name)).map(PathBuf::from);
        let paths: BTreeSet<_> = named.chain([PathBuf::from("/etc/ssl/certs/ca-certificates.crt")]).collect();
        let mut texts: Vec<_> = paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        texts.extend(extra_certificates());
        texts.iter_mut().filter(|text| !text.ends_with('\n')).for_each(|text| text.push('\n'));
        texts
    }

    fn write_client_settings(&self, inputs: &Path) -> io::Result<Vec<String>> {
        let home = |path: &str| self.home.as_ref().map(|home| home.join(path));
        let named = |name: &str| self.variables.get(name).map(PathBuf::from);
        let pip_user = named("PIP_CONFIG_FILE").or_else(|| home(".config/pip/pip.conf"));
        let npm_user = named("NPM_CONFIG_USERCONFIG").or_else(|| home(".npmrc"));
        let settings = [
            ("system/pip/pip.conf", vec![Some(PathBuf::from("/etc/pip.conf"))], PackageClient::Pip),
            ("user/pip/pip.conf", vec![home(".pip/pip.conf"), pip_user], PackageClient::Pip),
            ("system/npmrc", vec![Some(PathBuf::from("/etc/npmrc"))], PackageClient::Npm),
            ("user/npmrc", vec![npm_user], PackageClient::Npm),
        ];
        let mut marks = Vec::new();
        for (target, origins, client) in settings {
            let target = inputs.join("config").join(target);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            let texts = origins.into_iter().flatten().filter_map(|path| fs::read_to_string(path).ok());
            let lines: Vec<_> = texts.flat_map(|text| client.network_lines(&text)).collect();
            marks.extend(lines.iter().filter_map(|line| Some(line.split_once('=')?.1.trim().to_owned())));
            fs::write(target, client.file(&lines))?;
        }
        Ok(marks)
    }
}

/// A client with a settings file of lines `key = value`.
#[derive(Clone, Copy)]
enum PackageClient {
    Pip,
    Npm,
}

impl PackageClient {
    fn network_lines(self, text: &str) -> Vec<String> {
        let wanted = |line: &&str| {
            let key = line.split('=').next().unwrap_or_default().trim();
            match self {
                Self::Pip => PIP_KEYS.contains(&key),
                Self::Npm => NPM_KEYS.contains(&key) || key.starts_with("//") || key.ends_with(":registry"),
            }
        };
        text.lines().map(str::trim).filter(wanted).map(str::to_owned).collect()
    }

    fn file(self, lines: &[String]) -> String {
        let head = match self {
            Self::Pip => "[global]\n",
            Self::Npm => "",
        };
        format!("{head}{}\n", lines.join("\n"))
    }
}

fn write_sources(chosen: &[PackageSource], inputs: &Path, outside: &Path) -> io::Result<()> {
    let (mut inside_text, mut outside_text) = (String::new(), String::new());
    for (number, source) in chosen.iter().enumerate() {
        let name = match &source.keyring {
            Some(Keyring::File(path)) => {
                let extension =
                    path.extension().map_or("gpg".into(), |extension| extension.to_string_lossy());
                let name = format!("{number}.{extension}");
                fs::copy(path, inputs.join("keyrings").join(&name))
                    .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
                Some(name)
            }
            Some(Keyring::Inline(key)) => {
                let name = format!("{number}.asc");
                fs::write(inputs.join("keyrings").join(&name), key)?;
                Some(name)
            }
            None => None,
        };
        let below = |root: &Path| name.as_ref().map(|name| root.join("keyrings").join(name));
        inside_text += &format!("{}\n", source.line(below(Path::new(INPUTS)).as_deref()));
        outside_text += &format!("{}\n", source.line(below(inputs).as_deref()));
    }
    fs::write(inputs.join("sources.list"), inside_text)?;
    fs::write(outside, outside_text)
}

/// Returns the host's apt settings that concern the network, as lines `Key "value"`.
fn apt_options() -> Vec<String> {
    // A host without apt has none.
    let Ok(output) = super::steps::host_command("apt-config").arg("dump").output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    // Files that these name do not exist inside the root; certificates are staged separately.
    let on_host = ["::CAInfo", "::CAPath", "::SslCert", "::SslKey", "::Proxy-Auto-Detect", "::CRLFile"];
    let wanted = |line: &&str| {
        APT_KEYS.iter().any(|key| line.starts_with(key)) && !on_host.iter().any(|key| line.contains(key))
    };
    let lines = text.lines().filter(wanted).filter(|line| !line.ends_with(" \"\";"));
    lines.map(|line| line.trim_end_matches(';').to_owned()).collect()
}

fn outside_options(options: &[String], inputs: &Path) -> String {
    let mut lines = options.to_vec();
    lines.push("Acquire::Languages \"none\"".to_owned());
    lines.push(format!("Acquire::https::CAInfo \"{}\"", inputs.join("ca-bundle.crt").display()));
    lines.push(format!("Dir::Etc::netrc \"{}\"", inputs.join("auth.conf").display()));
    lines.join("\n") + "\n"
}

fn inside_config(options: &[String]) -> String {
    let mut lines = options.to_vec();
    lines.push(format!("Acquire::https::CAInfo \"{INPUTS}/ca-bundle.crt\""));
    lines.push(format!("Dir::Etc::sourcelist \"{INPUTS}/sources.list\""));
    lines.push("Dir::Etc::sourceparts \"/dev/null\"".to_owned());
    lines.push(format!("Dir::Etc::netrc \"{INPUTS}/auth.conf\""));
    lines.push(format!("Dir::Etc::trustedparts \"{INPUTS}/trusted/\""));
    // apt's own unprivileged user can't read the inputs.
    lines.push("APT::Sandbox::User \"root\"".to_owned());
    lines.join(";\n") + ";\n"
}

/// Copies passwords of mirrors, and keys that the host trusts for all of them.
fn copy_apt_secrets(inputs: &Path) -> io::Result<()> {
    let below = |directory: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(directory);
        entries.map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
    };
    let mut secrets = below("/etc/apt/auth.conf.d");
    secrets.push(PathBuf::from("/etc/apt/auth.conf"));
    let texts: Vec<_> = secrets.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    fs::write(inputs.join("auth.conf"), texts.join("\n"))?;
    let trusted = inputs.join("trusted");
    fs::create_dir_all(&trusted)?;
    for path in below("/etc/apt/trusted.gpg.d") {
        if let Some(name) = path.file_name() {
            fs::copy(&path, trusted.join(name))?;
        }
    }
    Ok(())
}

/// Returns certificates that the operator added to the host.
fn extra_certificates() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/usr/local/share/ca-certificates") else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
}

/// Returns a line from the middle of a certificate, which no other certificate has.
fn certificate_mark(pem: &str) -> Option<String> {
    let lines: Vec<_> = pem.lines().filter(|line| line.len() == 64).collect();
    lines.get(lines.len() / 2).map(|line| (*line).to_owned())
}

fn quoted_address(option: &str) -> Option<String> {
    option.split('"').nth(1).filter(|value| value.contains("://")).map(str::to_owned)
}

/// Removes marks that prove nothing: Debian's own addresses are in the image on purpose, and short values
/// occur everywhere.
fn telling(marks: Vec<String>) -> Vec<String> {
    let ordinary = |mark: &str| {
        mark.contains("://deb.debian.org/")
            || mark.contains("://security.debian.org/")
            || mark.starts_with(snapshot::SERVICE)
    };
    let mut marks: Vec<_> = marks.into_iter().filter(|mark| mark.len() >= 12 && !ordinary(mark)).collect();
    marks.sort();
    marks.dedup();
    marks
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
