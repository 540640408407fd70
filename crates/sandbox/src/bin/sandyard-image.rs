//! Builds an image without the rest of the program: `sandyard-image base|full CACHE`.
//!
//! `make run` starts it as soon as it is linked, while cargo still compiles the server; `sandyard image
//! build` does the same with a better display. It ends when its starter is gone, because the build dies with
//! its thread.

use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use sandyard_sandbox::image::{
    BuildProgress, Builder, Cancellation, HostSettings, ImageFlavour, ImageRequest, ImageStore,
};

/// Percent between two progress lines.
const STEP: u8 = 20;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let flavour = arguments.next().and_then(|name| ImageFlavour::parse(&name));
    let (Some(flavour), Some(cache)) = (flavour, arguments.next()) else {
        say("usage: sandyard-image base|full CACHE");
        return ExitCode::from(2);
    };
    let host = HostSettings {
        variables: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        home: std::env::var_os("HOME").map(Into::into),
    };
    let builder = Builder::new(ImageStore::new(cache), host, SystemTime::now, Cancellation::default());
    let mut told = None;
    let mut report = |progress: &BuildProgress| {
        if told.is_none_or(|percent| progress.percent >= percent + STEP) {
            say(&format!("image {flavour}: {} %, {}", progress.percent, progress.phase));
            told = Some(progress.percent);
        }
    };
    match builder.ensure(&ImageRequest::plain(flavour), &mut report) {
        Ok(_) => {
            say(&format!("image {flavour}: ready"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&format!("error: image {flavour}: {error}"));
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                say(&format!("  caused by: {cause}"));
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    // If standard error is gone, nobody can be told.
    drop(writeln!(std::io::stderr(), "{line}"));
}
