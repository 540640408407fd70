//! Scripts for xdotool, run by the image's own program with the job's rights.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::client::{DisplayError, invalid, pause};

/// Output of a script that is returned; the rest is cut.
const OUTPUT_BYTES: usize = 64 * 1024;
/// Time limit of a script.
const DEADLINE: Duration = Duration::from_secs(120);
/// Interval between two looks for its end.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Runs a script and returns its output.
pub(super) fn run(script: &str) -> Result<String, DisplayError> {
    let failed = |source| DisplayError::Program { what: "run xdotool".into(), source };
    let mut child = Command::new("xdotool")
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let readers = [
        child.stdout.take().map(|stream| std::thread::spawn(move || read_some(stream))),
        child.stderr.take().map(|stream| std::thread::spawn(move || read_some(stream))),
    ];
    if let Some(mut input) = child.stdin.take() {
        // A script that ends before it was read whole explains that by its exit.
        let _ = input.write_all(script.as_bytes()).and_then(|()| input.write_all(b"\n"));
    }
    let status = wait(&mut child).map_err(failed)?;
    let [output, errors] =
        readers.map(|reader| reader.and_then(|reader| reader.join().ok()).unwrap_or_default());
    match status {
        Some(status) if status.success() => Ok(output + &errors),
        Some(status) => Err(invalid(format!("xdotool failed ({status}): {}", errors.trim()))),
        None => Err(invalid(format!("xdotool did not end within {} s", DEADLINE.as_secs()))),
    }
}

/// Its exit, or nothing if it had to be killed.
fn wait(child: &mut Child) -> std::io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        pause(LOOK_AGAIN);
    }
}

/// Returns the beginning of a stream, and discards the rest so that the writer does not block.
fn read_some(mut stream: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    let _ = stream.by_ref().take(OUTPUT_BYTES as u64).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}
