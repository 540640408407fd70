//! Reaches the host from inside a virtual machine: by a serial line or a vsock connection.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use async_trait::async_trait;
use rustix::fs::{Mode, OFlags};

use super::contract::Dial;
use super::descriptor_stream::{DescriptorStream, has_hung_up};
use crate::limits::SOCKET_WATCH;
use crate::sys;

/// A serial line. It is opened once and stays open, because the kernel gives it to one opener at a time. A link lasts as long as
/// the same host process holds the other end.
#[derive(Debug)]
pub struct SerialDial {
    path: PathBuf,
    port: Option<OwnedFd>,
}

impl SerialDial {
    /// Uses the line at this path.
    pub fn new(path: PathBuf) -> Self {
        Self { path, port: None }
    }

    fn port(&mut self) -> io::Result<&OwnedFd> {
        let port = match self.port.take() {
            Some(port) => port,
            None => {
                let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                rustix::fs::open(&self.path, flags, Mode::empty())?
            }
        };
        Ok(self.port.insert(port))
    }
}

#[async_trait]
impl Dial for SerialDial {
    type Stream = DescriptorStream;

    async fn dial(&mut self) -> io::Result<DescriptorStream> {
        let port = self.port()?;
        // Polling can't be avoided: the kernel reports a line without a host as always ready.
        while has_hung_up(port) {
            tokio::time::sleep(SOCKET_WATCH).await;
        }
        DescriptorStream::new(port.try_clone()?)
    }
}

/// A vsock connection to a port of the machine's host.
#[derive(Debug)]
pub struct VsockDial {
    port: u32,
}

impl VsockDial {
    /// Dials this vsock port of the host.
    pub fn new(port: u32) -> Self {
        Self { port }
    }
}

#[async_trait]
impl Dial for VsockDial {
    type Stream = DescriptorStream;

    async fn dial(&mut self) -> io::Result<DescriptorStream> {
        let stream = DescriptorStream::new(sys::connect_vsock(self.port)?)?;
        stream.writable().await?;
        match rustix::net::sockopt::socket_error(stream.descriptor())? {
            Ok(()) => Ok(stream),
            Err(error) => Err(error.into()),
        }
    }
}
