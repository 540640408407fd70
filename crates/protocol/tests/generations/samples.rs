//! Messages as builds of each supported generation write them: today's types still read them and still write all that was in
//! them. Every type and every variant has a sample.

use std::fs;

use sandyard_pipe::GENERATION;
use sandyard_protocol::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::shape::{Flag, Shape};
use crate::{schema_file, source};

/// Reads a message and writes it again.
type Recode = fn(&str) -> Result<Value, serde_json::Error>;

fn recode<T: DeserializeOwned + Serialize>(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_str::<T>(text)?)
}

macro_rules! recoders {
    ($($name:ident),* $(,)?) => {
        const RECODERS: &[(&str, Recode)] = &[$((stringify!($name), recode::<$name>)),*];
    };
}

recoders!(
    Ack,
    AgentRequest,
    BeginJob,
    BootConfig,
    ChangedPath,
    ContextPart,
    ContextReason,
    ControlReply,
    ControlRequest,
    ControlWish,
    DeskRefusal,
    DeskReply,
    DeskRequest,
    DesktopMode,
    DirectoryEntry,
    DiskMount,
    Edit,
    EndReason,
    EngineMachine,
    EntryHeader,
    EntryKind,
    Execute,
    ExecutionEnd,
    ExecutionError,
    ExecutionId,
    ExecutionInfo,
    Exit,
    FileRange,
    FileStat,
    GuestError,
    GuestErrorCode,
    GuestEvent,
    GuestRequest,
    GuiAction,
    GuiClick,
    GuiResult,
    JobLimits,
    JobProgress,
    JobUsage,
    JobWork,
    JournalEntry,
    JournalPassage,
    JournalPassages,
    JournalQuestion,
    JournalRow,
    KeptText,
    KernelEvent,
    KernelId,
    KernelInfo,
    KernelState,
    Language,
    LinkPort,
    LinkTarget,
    MachineConfig,
    MachineSize,
    MemoryMount,
    ModelCall,
    ModelEvent,
    ModelFacts,
    ModelFailure,
    ModelFailureCode,
    ModelMessage,
    ModelPart,
    ModelUsage,
    NextPicture,
    OnBreach,
    Outcome,
    OutputKind,
    OutputOffsets,
    OutputPart,
    OutputStream,
    PlanItem,
    PlanState,
    ProcessEvent,
    ProcessId,
    ProcessInfo,
    ProcessInput,
    RecordedPicture,
    Reply,
    Request,
    RequestKey,
    Resume,
    SearchHit,
    Secret,
    SequencedEvent,
    SpawnerSource,
    Speaker,
    StartProcess,
    StopReason,
    TaskBudget,
    TaskFacts,
    TaskSpent,
    TerminalSize,
    TextOrigin,
    ToolCall,
    ToolResult,
    ToolSpec,
    WhyAsked,
    WindowInfo,
    WorkspaceChanges,
);

/// Reads and writes a message of the named type.
fn recode_as(name: &str, json: &str) -> Value {
    let (_, recode) = RECODERS.iter().find(|(known, _)| *known == name).expect("every type is in RECODERS");
    recode(json).unwrap_or_else(|error| panic!("{name} {json}: {error}"))
}

/// Types of the hello, whose frozen bytes are in the tests of `sandyard-pipe`.
const HELLO: [&str; 4] = ["GuestHello", "HostHello", "Proof", "GuestAnswer"];

/// Samples of one generation, each with the name of its type.
fn samples(generation: u32) -> Vec<(String, String)> {
    let text = fs::read_to_string(schema_file(generation, "samples.txt")).expect("samples of the generation");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let split = |line: &str| line.split_once(' ').map(|(name, json)| (name.to_owned(), json.to_owned()));
    lines.map(|line| split(line).expect("a type and its JSON")).collect()
}

/// Whether a message says all that another one said. Members that are null may be left out.
fn says_all(today: &Value, frozen: &Value) -> bool {
    match (today, frozen) {
        (Value::Object(today), Value::Object(frozen)) => frozen
            .iter()
            .all(|(name, frozen)| today.get(name).map_or(frozen.is_null(), |today| says_all(today, frozen))),
        (Value::Array(today), Value::Array(frozen)) => {
            today.len() == frozen.len()
                && today.iter().zip(frozen).all(|(today, frozen)| says_all(today, frozen))
        }
        (today, frozen) => today == frozen,
    }
}

#[test]
fn samples_of_every_supported_generation_are_read_and_written() {
    for generation in GENERATION.saturating_sub(1).max(1)..=GENERATION {
        for (name, json) in samples(generation) {
            let today = recode_as(&name, &json);
            let frozen: Value = serde_json::from_str(&json).unwrap();
            assert!(says_all(&today, &frozen), "generation {generation}: {name} {json} became {today}");
        }
    }
}

/// A newer peer may send members that this build does not know.
#[test]
fn unknown_members_are_ignored() {
    let shape = source::shape();
    for (name, json) in samples(GENERATION) {
        let mut message: Value = serde_json::from_str(&json).unwrap();
        // The members of an enum without a tag are the names of its variants.
        if shape[&name].form == "enum" || shape[&name].has(&Flag::Strict) {
            continue;
        }
        if let Value::Object(members) = &mut message {
            members.insert("from_the_future".into(), 1.into());
            recode_as(&name, &message.to_string());
        }
    }
}

#[test]
fn every_type_and_variant_has_a_sample() {
    let shape = source::shape();
    let samples = samples(GENERATION);
    let types = shape.keys().filter(|subject| !subject.contains(['.', ':', ' ']));
    let mut missing: Vec<String> = types
        .filter(|name| !HELLO.contains(&name.as_str()) && !has_sample(&samples, name))
        .cloned()
        .collect();
    for subject in shape.keys().filter(|subject| subject.contains("::") && !subject.contains('.')) {
        let (owner, variant) = subject.split_once("::").unwrap();
        if !HELLO.contains(&owner) && !has_variant(&shape, &samples, owner, variant) {
            missing.push(subject.clone());
        }
    }
    assert!(missing.is_empty(), "without a sample in samples.txt: {missing:?}");
}

fn has_sample(samples: &[(String, String)], name: &str) -> bool {
    samples.iter().any(|(sample, _)| sample == name)
}

fn has_variant(shape: &Shape, samples: &[(String, String)], owner: &str, variant: &str) -> bool {
    let tag = shape[owner].form.strip_prefix("enum tagged by ");
    samples.iter().filter(|(name, _)| name == owner).any(|(_, json)| {
        let message: Value = serde_json::from_str(json).unwrap();
        match tag {
            Some(tag) => message[tag] == variant,
            None => message == variant || message.get(variant).is_some(),
        }
    })
}
