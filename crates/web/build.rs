//! Builds `web/` with npm into a folder named by the hash of its inputs, so that unchanged inputs are built once.
//!
//! `SANDYARD_WEB_DIST` names a finished build instead; `SANDYARD_WEB_CACHE` is the folder of builds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs, io};

const INPUTS: [&str; 5] =
    ["package.json", "package-lock.json", ".npmrc", "src/desktop.js", "src/desktop.html"];

fn main() {
    println!("cargo::rerun-if-env-changed=SANDYARD_WEB_DIST");
    println!("cargo::rerun-if-env-changed=SANDYARD_WEB_CACHE");
    let web = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../../web");
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", web.join(input).display());
    }
    println!("cargo::rerun-if-changed={}", web.join("src/desktop.css").display());
    let dist = match env::var_os("SANDYARD_WEB_DIST") {
        Some(dist) => PathBuf::from(dist),
        None => built(&web).unwrap_or_else(|error| fail(&format!("{error}"))),
    };
    println!("cargo::rustc-env=SANDYARD_WEB_DIST={}", dist.display());
}

/// Returns the folder with the build of these inputs.
fn built(web: &Path) -> io::Result<PathBuf> {
    let place = cache().join(format!("{:016x}", fingerprint(web)?));
    let dist = place.join("dist");
    if dist.join("desktop.js").is_file() {
        return Ok(dist);
    }
    // Another cargo may build the same inputs concurrently: each uses a folder of its own, and the first rename wins.
    let work = cache().join(format!("work-{}", std::process::id()));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(work.join("src"))?;
    for input in INPUTS {
        fs::copy(web.join(input), work.join(input))?;
    }
    npm(&work, &["ci", "--no-audit", "--no-fund", "--loglevel=error"])?;
    npm(&work, &["run", "--silent", "build"])?;
    fs::remove_dir_all(work.join("node_modules"))?;
    if fs::rename(&work, &place).is_err() {
        fs::remove_dir_all(&work)?;
    }
    Ok(dist)
}

fn npm(folder: &Path, arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("npm").current_dir(folder).args(arguments).output().inspect_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            fail("npm is missing, which builds the pages: run scripts/setup.sh, or install Node.js 20 or newer");
        }
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " · ");
    Err(io::Error::other(format!("npm {} failed: {said}", arguments.join(" "))))
}

fn fingerprint(web: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for input in INPUTS {
        input.hash(&mut hasher);
        fs::read(web.join(input))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// Returns `<target>/web`, found from `OUT_DIR`, which is `<target>/<profile>/build/<package>/out`.
fn cache() -> PathBuf {
    match env::var_os("SANDYARD_WEB_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => {
            let out = PathBuf::from(variable("OUT_DIR"));
            out.ancestors().nth(4).unwrap_or(&out).join("web")
        }
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| fail(&format!("cargo did not set {name}")))
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    exit(1)
}
