//! A desktop worker: takes one request at a time from keeper on its standard input, does it, answers on its standard output.

use std::io::{Read, Write};
use std::os::fd::AsFd as _;

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use sandyard_pipe::Frame;
use sandyard_protocol::{GuiAction, GuiResult};
use serde::{Deserialize, Serialize};

use super::{Done, Hands, HandsError};
use crate::keeper::files::Wire;
use sandyard_protocol::limits::DATA_BYTES;

/// The role's name, as the first argument of our own program.
pub const ROLE: &str = "desktop";
/// Address space of a worker: the largest screen several times over. A display that announces more ends the worker alone.
const ADDRESS_SPACE: u64 = 1024 * 1024 * 1024;

/// What keeper asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::keeper::desktop) enum Order {
    /// An action.
    Act(GuiAction),
    /// How many programs are connected to the display.
    Clients,
}

/// What a worker answers; a picture follows in data frames, an empty one ends it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keeper::desktop) struct Report {
    /// What came of an action.
    pub(in crate::keeper::desktop) result: GuiResult,
    /// Programs connected to the display.
    pub(in crate::keeper::desktop) clients: Option<u32>,
    /// Whether the worker ends now, because its display is gone.
    pub(in crate::keeper::desktop) lost: bool,
}

/// Makes this process what a worker must be, then serves.
pub fn run() -> std::io::Result<()> {
    // The job has the same uid: without this it could trace the worker and answer in its name.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let limit = Rlimit { current: Some(ADDRESS_SPACE), maximum: Some(ADDRESS_SPACE) };
    rustix::process::setrlimit(Resource::As, limit)?;
    let mut output = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    serve(&mut std::io::stdin().lock(), &mut output)
}

fn serve(input: &mut dyn Read, output: &mut dyn Write) -> std::io::Result<()> {
    let mut wire = Wire::new(input, output);
    let mut hands: Option<Hands> = None;
    loop {
        let order = match wire.receive().map_err(std::io::Error::other)? {
            None => return Ok(()),
            Some(Frame::Message(message)) => serde_json::from_slice::<Order>(&message)?,
            Some(Frame::Data(_)) => continue,
        };
        let (report, png) = report(obey(&mut hands, &order));
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

enum Obeyed {
    Acted(Done),
    Counted(u32),
}

fn obey(hands: &mut Option<Hands>, order: &Order) -> Result<Obeyed, HandsError> {
    let hands = match hands {
        Some(hands) => hands,
        None => hands.insert(Hands::connect()?),
    };
    match order {
        Order::Act(action) => hands.act(action).map(Obeyed::Acted),
        Order::Clients => hands.clients().map(Obeyed::Counted),
    }
}

fn report(outcome: Result<Obeyed, HandsError>) -> (Report, Option<Vec<u8>>) {
    match outcome {
        Ok(Obeyed::Acted(Done { result, png })) => (Report { result, ..Report::default() }, png),
        Ok(Obeyed::Counted(clients)) => (Report { clients: Some(clients), ..Report::default() }, None),
        Err(error) => {
            let result = GuiResult { error: Some(error.to_string()), ..GuiResult::default() };
            (Report { result, clients: None, lost: error.is_lost() }, None)
        }
    }
}
