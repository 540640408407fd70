//! A desktop worker: takes one order at a time from keeper on its standard input and answers on its standard output.

use std::io::{Read, Write};
use std::os::fd::AsFd as _;

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use sandyard_pipe::Frame;
use sandyard_protocol::{GuiAction, GuiResult};
use serde::{Deserialize, Serialize};

use super::client::{ActionOutcome, DisplayClient, DisplayError};
use crate::keeper::files::WorkerWire;
use sandyard_protocol::limits::DATA_BYTES;

/// The role's name, as the first argument of the guest's program.
pub const ROLE: &str = "desktop";
/// Address space of a worker: the largest screen several times over. A display that announces more ends the worker alone.
const ADDRESS_SPACE_BYTES: u64 = 1024 * 1024 * 1024;

/// A request of keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::keeper::desktop) enum WorkerOrder {
    Act(GuiAction),
    /// Count the programs that are connected to the display.
    Clients,
    /// Take a picture of the screen, unless it looks like this.
    Look {
        unless: Option<ScreenDigest>,
    },
}

/// Tells two screens apart. Not against anybody who wants to deceive: the job only ever hides its own picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keeper::desktop) struct ScreenDigest(pub(super) u64);

/// A worker's answer. The bytes of a picture follow in data frames; an empty frame ends them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keeper::desktop) struct WorkerReport {
    /// Outcome of an action.
    pub(in crate::keeper::desktop) result: GuiResult,
    /// Programs connected to the display.
    pub(in crate::keeper::desktop) clients: Option<u32>,
    /// The screen of a picture that was asked for with `Look`.
    pub(in crate::keeper::desktop) digest: Option<ScreenDigest>,
    /// True if the worker ends now, because its display is gone.
    pub(in crate::keeper::desktop) lost: bool,
}

/// Restricts this process, then serves.
pub fn run() -> std::io::Result<()> {
    // The job has the same uid: without this it could trace the worker and answer in its name.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let limit = Rlimit { current: Some(ADDRESS_SPACE_BYTES), maximum: Some(ADDRESS_SPACE_BYTES) };
    // Before the first byte of the display is read: the job may stand in for the X server and announce any size.
    rustix::process::setrlimit(Resource::As, limit)?;
    let mut output = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    serve(&mut std::io::stdin().lock(), &mut output)
}

fn serve(input: &mut dyn Read, output: &mut dyn Write) -> std::io::Result<()> {
    let mut wire = WorkerWire::new(input, output);
    let mut client: Option<DisplayClient> = None;
    loop {
        let order = match wire.receive().map_err(std::io::Error::other)? {
            None => return Ok(()),
            Some(Frame::Message(message)) => serde_json::from_slice::<WorkerOrder>(&message)?,
            Some(Frame::Data(_)) => continue,
        };
        let (report, png) = report(obey(&mut client, &order));
        wire.send_message(&report).map_err(std::io::Error::other)?;
        for part in png.iter().flat_map(|png| png.chunks(DATA_BYTES)) {
            wire.payload()[..part.len()].copy_from_slice(part);
            wire.send_payload(part.len()).map_err(std::io::Error::other)?;
        }
        wire.send_end().map_err(std::io::Error::other)?;
        if report.lost {
            return Ok(());
        }
    }
}

/// The outcome of an order.
enum OrderOutcome {
    Acted(ActionOutcome),
    Counted(u32),
    /// `None` if the screen is the one that was named.
    Looked(Option<(ScreenDigest, ActionOutcome)>),
}

fn obey(client: &mut Option<DisplayClient>, order: &WorkerOrder) -> Result<OrderOutcome, DisplayError> {
    let client = match client {
        Some(client) => client,
        None => client.insert(DisplayClient::connect()?),
    };
    match order {
        WorkerOrder::Act(action) => client.act(action).map(OrderOutcome::Acted),
        WorkerOrder::Clients => client.clients().map(OrderOutcome::Counted),
        WorkerOrder::Look { unless } => client.look(*unless).map(OrderOutcome::Looked),
    }
}

fn report(outcome: Result<OrderOutcome, DisplayError>) -> (WorkerReport, Option<Vec<u8>>) {
    match outcome {
        Ok(OrderOutcome::Acted(ActionOutcome { result, png })) => {
            (WorkerReport { result, ..WorkerReport::default() }, png)
        }
        Ok(OrderOutcome::Counted(clients)) => {
            (WorkerReport { clients: Some(clients), ..WorkerReport::default() }, None)
        }
        Ok(OrderOutcome::Looked(None)) => (WorkerReport::default(), None),
        Ok(OrderOutcome::Looked(Some((digest, ActionOutcome { result, png })))) => {
            (WorkerReport { result, digest: Some(digest), ..WorkerReport::default() }, png)
        }
        Err(error) => {
            let result = GuiResult { error: Some(error.to_string()), ..GuiResult::default() };
            (WorkerReport { result, lost: error.is_lost(), ..WorkerReport::default() }, None)
        }
    }
}
