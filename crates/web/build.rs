//! Builds `web/` with npm into a folder named by the hash of its inputs, so that unchanged inputs are built once.
//!
//! `SANDYARD_WEB_DIST` names a finished build instead; `SANDYARD_WEB_CACHE` is the folder of builds.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs, io};

/// Files and folders of `web/` that the build reads.
const INPUTS: [&str; 6] = ["package.json", "package-lock.json", ".npmrc", "build.mjs", "src", "static"];

fn main() {
    println!("cargo::rerun-if-env-changed=SANDYARD_WEB_DIST");
    println!("cargo::rerun-if-env-changed=SANDYARD_WEB_CACHE");
    let web = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../../web");
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", web.join(input).display());
    }
    let dist = match env::var_os("SANDYARD_WEB_DIST") {
        Some(dist) => PathBuf::from(dist),
        None => built(&web).unwrap_or_else(|error| fail(&format!("{error}"))),
    };
    println!("cargo::rustc-env=SANDYARD_WEB_DIST={}", dist.display());
    embed(&dist).unwrap_or_else(|error| fail(&format!("embed {}: {error}", dist.display())));
}

/// Writes the table of assets as Rust, from the index that the build of the pages made.
fn embed(dist: &Path) -> io::Result<()> {
    let mut table = String::from("&[\n");
    for row in fs::read_to_string(dist.join("assets.tsv"))?.lines() {
        let [name, media_type, tag] = row.split('\t').collect::<Vec<_>>()[..] else {
            return Err(io::Error::other(format!("`{row}` is no row of assets.tsv")));
        };
        let path = dist.join(name);
        let path = path.display();
        table += &format!(
            "    WebAsset {{ name: {name:?}, media_type: {media_type:?}, tag: \"\\\"{tag}\\\"\", \
             bytes: include_bytes!(\"{path}\"), brotli: include_bytes!(\"{path}.br\") }},\n"
        );
    }
    table.push(']');
    fs::write(PathBuf::from(variable("OUT_DIR")).join("assets.rs"), table)
}

/// Returns the folder with the build of these inputs.
fn built(web: &Path) -> io::Result<PathBuf> {
    let place = cache().join(format!("{:016x}", fingerprint(web)?));
    let dist = place.join("dist");
    if dist.join("assets.tsv").is_file() {
        return Ok(dist);
    }
    // Another cargo may build the same inputs concurrently: each uses a folder of its own, and the first rename wins.
    let work = cache().join(format!("work-{}", std::process::id()));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    for file in inputs(web)? {
        let place = work.join(&file);
        fs::create_dir_all(place.parent().unwrap_or(&work))?;
        fs::copy(web.join(&file), place)?;
    }
    // Types are checked by tests, not here: the first build stays small.
    npm(&work, &["ci", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error"])?;
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
    for file in inputs(web)? {
        file.hash(&mut hasher);
        fs::read(web.join(&file))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

/// All files that the build reads, relative to `web`, in order. Generated types are not among them: the build needs none.
fn inputs(web: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut left: Vec<PathBuf> = INPUTS.iter().map(PathBuf::from).collect();
    while let Some(path) = left.pop() {
        if !web.join(&path).is_dir() {
            files.push(path);
            continue;
        }
        for entry in fs::read_dir(web.join(&path))? {
            left.push(path.join(entry?.file_name()));
        }
    }
    files.retain(|file| !file.ends_with("schema.d.ts"));
    files.sort();
    Ok(files)
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
