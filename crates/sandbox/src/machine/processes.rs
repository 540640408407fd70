//! Processes in a machine: start, follow, write to, signal.

use bytes::Bytes;
use sandyard_pipe::{Frame, FrameReceiver, FrameSender};
use sandyard_protocol::{
    Exit, OutputChunk, OutputOffsets, ProcessEvent, ProcessId, ProcessInfo, ProcessInput, Reply, Request,
    StartProcess, TerminalSize, limits,
};

use super::calls::{GuestStream, Machine, MachineError, unexpected};
use super::doors::MachineStream;

/// Longest name of a process; keeper makes names such as `p1-23`.
const MAX_NAME_BYTES: usize = 64;

impl Machine {
    /// Starts a process and follows it from its first byte.
    pub async fn start_process(&self, start: StartProcess) -> Result<ProcessStream, MachineError> {
        self.follow(&Request::StartProcess(start)).await
    }

    /// Follows a process that runs or has ended.
    pub async fn attach_process(
        &self,
        process: ProcessId,
        from: OutputOffsets,
    ) -> Result<ProcessStream, MachineError> {
        self.follow(&Request::AttachProcess { process, from }).await
    }

    /// Sends a signal to a process's group.
    pub async fn signal_process(&self, process: ProcessId, signal: i32) -> Result<(), MachineError> {
        self.done(&Request::SignalProcess { process, signal }).await
    }

    /// Returns all processes that were started through the machine, newest first.
    pub async fn list_processes(&self) -> Result<Vec<ProcessInfo>, MachineError> {
        match self.call(&Request::ListProcesses).await?.1 {
            Reply::Processes(processes) => processes.into_iter().map(checked).collect(),
            other => Err(unexpected(&other)),
        }
    }

    async fn follow(&self, request: &Request) -> Result<ProcessStream, MachineError> {
        match self.call(request).await? {
            (stream, Reply::Process(info)) => Ok(ProcessStream::new(checked(info)?, stream)),
            (_, other) => Err(unexpected(&other)),
        }
    }
}

/// Checks facts about a process: its name becomes part of addresses.
fn checked(info: ProcessInfo) -> Result<ProcessInfo, MachineError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if (1..=MAX_NAME_BYTES).contains(&info.id.0.len()) && info.id.0.bytes().all(plain) {
        return Ok(info);
    }
    Err(MachineError::Malformed("name of a process".into()))
}

/// A follower of a process. Dropping it leaves the process running unless it was started to end with its
/// stream.
#[derive(Debug)]
pub struct ProcessStream {
    reader: ProcessReader,
    control: ProcessControl,
}

/// The reading side of a follower, for a task of its own.
#[derive(Debug)]
pub struct ProcessReader {
    info: ProcessInfo,
    receiver: FrameReceiver<MachineStream>,
}

/// The writing side of a follower, for a task of its own.
#[derive(Debug)]
pub struct ProcessControl {
    sender: FrameSender<MachineStream>,
}

/// Item of a process stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromProcess {
    /// Output of the process, with its stream and offset.
    Output(OutputChunk),
    /// Number of bytes before the next output that were dropped.
    Lost(u64),
    /// The end; nothing follows.
    Exited(Exit),
}

impl ProcessStream {
    fn new(info: ProcessInfo, stream: GuestStream) -> Self {
        let (receiver, sender) = stream.split();
        Self { reader: ProcessReader { info, receiver }, control: ProcessControl { sender } }
    }

    /// Returns facts about the process.
    pub fn info(&self) -> &ProcessInfo {
        self.reader.info()
    }

    /// Returns the next output or the end. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Result<FromProcess, MachineError> {
        self.reader.next().await
    }

    /// Returns the sending half.
    pub fn control(&mut self) -> &mut ProcessControl {
        &mut self.control
    }

    /// Returns both halves, for two tasks.
    pub fn split(self) -> (ProcessReader, ProcessControl) {
        (self.reader, self.control)
    }
}

impl ProcessReader {
    /// Returns facts about the process.
    pub fn info(&self) -> &ProcessInfo {
        &self.info
    }

    /// Returns the next output or the end. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Result<FromProcess, MachineError> {
        match self.receiver.receive().await? {
            Some(Frame::Data(frame)) => OutputChunk::decode(frame)
                .map(FromProcess::Output)
                .ok_or_else(|| MachineError::Malformed("output chunk".into())),
            Some(Frame::Message(message)) => match serde_json::from_slice(&message) {
                Ok(ProcessEvent::Lost { bytes }) => Ok(FromProcess::Lost(bytes)),
                Ok(ProcessEvent::Exited(exit)) => Ok(FromProcess::Exited(exit)),
                Err(_) => Err(MachineError::Malformed("process event".into())),
            },
            None => Err(MachineError::Lost),
        }
    }
}

impl ProcessControl {
    /// Writes to standard input.
    pub async fn write(&mut self, bytes: &Bytes) -> Result<(), MachineError> {
        for part in bytes.chunks(limits::DATA_BYTES) {
            self.sender.send_data(part).await?;
        }
        Ok(())
    }

    /// Closes the process's standard input.
    pub async fn close_input(&mut self) -> Result<(), MachineError> {
        Ok(self.sender.send_message(&ProcessInput::Close).await?)
    }

    /// Gives the terminal a new size.
    pub async fn resize(&mut self, size: TerminalSize) -> Result<(), MachineError> {
        Ok(self.sender.send_message(&ProcessInput::Resize(size)).await?)
    }

    /// Sends a signal to the process's group.
    pub async fn signal(&mut self, signal: i32) -> Result<(), MachineError> {
        Ok(self.sender.send_message(&ProcessInput::Signal(signal)).await?)
    }
}
