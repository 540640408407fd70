//! Draws the pictures with `dot` of Graphviz.
//!
//! The DOT text comes from a process that read hostile files, so `dot` gets an empty environment, no file to read, and
//! `SERVER_NAME`, which makes Graphviz refuse to load pictures that the text names. What it prints is sanitised.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use sandyard_explain::Explanation;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// A picture of at most 25 boxes takes a tenth of a second.
const DRAW_TIMEOUT: Duration = Duration::from_secs(30);
/// Larger pictures are none of ours.
const MAX_PICTURE_BYTES: u64 = 16 << 20;

/// The pictures of an explanation, as `dot` wrote them.
#[derive(Debug, Default)]
pub(super) struct DrawnPictures {
    /// All parts, as SVG and PNG.
    pub(super) overview: Option<(String, Vec<u8>)>,
    /// What is different from before, as SVG and PNG.
    pub(super) changes: Option<(String, Vec<u8>)>,
    /// Slug and SVG of each part that has a picture.
    pub(super) parts: Vec<(String, String)>,
}

/// Draws all pictures.
pub(super) async fn draw(explanation: &Explanation) -> io::Result<DrawnPictures> {
    let mut pictures =
        DrawnPictures { overview: Some(both(&explanation.dot).await?), ..DrawnPictures::default() };
    if let Some(changes) = &explanation.changes {
        pictures.changes = Some(both(&changes.dot).await?);
    }
    for part in &explanation.parts {
        if let Some(dot) = &part.dot {
            pictures.parts.push((part.slug.clone(), text(render(dot, &["-Tsvg"]).await?)?));
        }
    }
    Ok(pictures)
}

/// A picture as SVG and as PNG.
async fn both(dot: &str) -> io::Result<(String, Vec<u8>)> {
    let svg = text(render(dot, &["-Tsvg"]).await?)?;
    Ok((svg, render(dot, &["-Tpng", "-Gdpi=120", "-Gbgcolor=white"]).await?))
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(io::Error::other)
}

async fn render(dot: &str, arguments: &[&str]) -> io::Result<Vec<u8>> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut child = Command::new("dot")
        .args(arguments)
        .env_clear()
        .env("PATH", path)
        .env("SERVER_NAME", "sandyard")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let work = async {
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(dot.as_bytes()).await?;
        }
        let mut picture = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(MAX_PICTURE_BYTES).read_to_end(&mut picture).await?;
        }
        let status = child.wait().await?;
        if status.success() { Ok(picture) } else { Err(io::Error::other(format!("dot ended with {status}"))) }
    };
    tokio::time::timeout(DRAW_TIMEOUT, work).await.map_err(|_| io::Error::other("dot took too long"))?
}
