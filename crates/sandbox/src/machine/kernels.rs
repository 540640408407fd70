//! Kernels in a machine: run code, follow it, manage the kernels.

use sandyard_pipe::Frame;
use sandyard_protocol::{
    Execute, ExecutionEnd, ExecutionError, ExecutionId, ExecutionInfo, KernelEvent, KernelId, KernelInfo,
    Language, OutputKind, OutputPart, OutputStream, Reply, Request, limits,
};

use super::calls::{GuestStream, Machine, MachineError, next_part, unexpected};

impl Machine {
    /// Starts one more kernel. Returns when it waits for code.
    pub async fn start_kernel(&self, language: Language) -> Result<KernelInfo, MachineError> {
        self.kernel(&Request::StartKernel { language }).await
    }

    /// Returns all kernels, oldest first.
    pub async fn list_kernels(&self) -> Result<Vec<KernelInfo>, MachineError> {
        match self.call(&Request::ListKernels).await?.1 {
            Reply::Kernels(kernels) => Ok(kernels),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends a kernel and its running code.
    pub async fn stop_kernel(&self, kernel: KernelId) -> Result<(), MachineError> {
        self.done(&Request::StopKernel { kernel }).await
    }

    /// Interrupts the code that a kernel runs.
    pub async fn interrupt_kernel(&self, kernel: KernelId) -> Result<(), MachineError> {
        self.done(&Request::InterruptKernel { kernel }).await
    }

    /// Gives a kernel a fresh process.
    pub async fn restart_kernel(&self, kernel: KernelId) -> Result<KernelInfo, MachineError> {
        self.kernel(&Request::RestartKernel { kernel }).await
    }

    /// Runs code and follows it.
    pub async fn execute(&self, execute: Execute) -> Result<ExecutionStream, MachineError> {
        self.follow_execution(&Request::Execute(execute)).await
    }

    /// Follows an execution from its beginning.
    pub async fn attach_execution(&self, execution: ExecutionId) -> Result<ExecutionStream, MachineError> {
        self.follow_execution(&Request::AttachExecution { execution }).await
    }

    async fn kernel(&self, request: &Request) -> Result<KernelInfo, MachineError> {
        // A start may take longer than other answers, and keeper has a deadline of its own for it.
        let mut stream = self.request(request).await?;
        match super::calls::reply_within(&mut stream, START_DEADLINE).await? {
            Reply::Kernel(kernel) => Ok(kernel),
            other => Err(unexpected(&other)),
        }
    }

    async fn follow_execution(&self, request: &Request) -> Result<ExecutionStream, MachineError> {
        match self.call(request).await? {
            (stream, Reply::Execution(info)) => Ok(ExecutionStream { info, stream }),
            (_, other) => Err(unexpected(&other)),
        }
    }
}

/// Longest start of a kernel: two attempts of keeper and a margin.
const START_DEADLINE: std::time::Duration = std::time::Duration::from_secs(250);

/// A follower of an execution. Dropping it interrupts the execution only if the request asked for that.
#[derive(Debug)]
pub struct ExecutionStream {
    info: ExecutionInfo,
    stream: GuestStream,
}

/// Item of an execution stream.
#[derive(Debug, Clone, PartialEq)]
pub enum FromExecution {
    /// Text on standard output or standard error.
    Text(OutputStream, String),
    /// An output in several forms, each a MIME type and a value.
    Output(OutputKind, Vec<(String, serde_json::Value)>),
    /// An exception of the code, with its traceback.
    Error(ExecutionError),
    /// The next output replaces all output so far.
    Clear,
    /// A sentence for a person.
    Note(String),
    /// Number of output bytes that were left out.
    Truncated(u64),
    /// The end; nothing follows.
    Done(ExecutionEnd),
}

impl ExecutionStream {
    /// Returns facts about the execution.
    pub fn info(&self) -> &ExecutionInfo {
        &self.info
    }

    /// Returns the next output of the execution, or its end.
    pub async fn next(&mut self) -> Result<FromExecution, MachineError> {
        let event: KernelEvent = match self.stream.receive().await? {
            Some(Frame::Message(message)) => serde_json::from_slice(&message)
                .map_err(|_| MachineError::Malformed("kernel event".into()))?,
            Some(Frame::Data(_)) => return Err(MachineError::Malformed("data without an output".into())),
            None => return Err(MachineError::Lost),
        };
        Ok(match event {
            KernelEvent::Text { stream, text } => FromExecution::Text(stream, text),
            KernelEvent::Output { kind, parts } => FromExecution::Output(kind, self.forms(parts).await?),
            KernelEvent::Error(error) => FromExecution::Error(error),
            KernelEvent::Clear => FromExecution::Clear,
            KernelEvent::Note { text } => FromExecution::Note(text),
            KernelEvent::Truncated { bytes } => FromExecution::Truncated(bytes),
            KernelEvent::Done(end) => FromExecution::Done(end),
        })
    }

    /// Reads the forms of an output, whose bytes follow its message. Leaves out a form that is no JSON.
    async fn forms(
        &mut self,
        parts: Vec<OutputPart>,
    ) -> Result<Vec<(String, serde_json::Value)>, MachineError> {
        // Saturating: the sizes come from the guest, and an overflow would pass the bound.
        let total: u64 = parts.iter().fold(0, |total, part| total.saturating_add(part.bytes));
        if parts.len() > limits::OUTPUT_PARTS || total > limits::OUTPUT_BYTES as u64 {
            return Err(MachineError::Malformed("an output over its bounds".into()));
        }
        let mut forms = Vec::with_capacity(parts.len());
        for part in parts {
            let (mut bytes, mut left) = (Vec::new(), part.bytes);
            while let Some(data) = next_part(&mut self.stream, &mut left, "the bytes of an output").await? {
                bytes.extend_from_slice(&data);
            }
            if let Some(value) = value(&part.mime, &bytes) {
                forms.push((part.mime, value));
            }
        }
        Ok(forms)
    }
}

/// Returns the value of a form: text for most types, any value for JSON types. Large JSON stays text, because
/// a tree of small values takes many times the memory of its text.
fn value(mime: &str, bytes: &[u8]) -> Option<serde_json::Value> {
    const TREE_BYTES: usize = 256 * 1024;
    let is_json = mime == "application/json" || mime.ends_with("+json");
    if is_json && bytes.len() > TREE_BYTES {
        return std::str::from_utf8(bytes).ok().map(|text| text.to_owned().into());
    }
    if !is_json && bytes.first() != Some(&b'"') && bytes.len() > TREE_BYTES {
        return None;
    }
    serde_json::from_slice(bytes).ok()
}
