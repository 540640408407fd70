//! Fills memory that belongs to the kernel and not to the program, until the kernel refuses more or ends the filler.

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;

use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// Kinds at once: more than the suite's limit of memory leaves room for.
const MOST_PIPES: usize = 2000;
const MOST_SOCKETS: usize = 4000;
const MOST_CONNECTIONS: usize = 200;
const MOST_DATAGRAM_SOCKETS: usize = 900;
/// As long as one may be, nearly; a socket holds a few.
const DATAGRAM_BYTES: usize = 60_000;
const DATAGRAMS: usize = 4;
/// A file in memory is given up beyond this.
const MOST_MEMORY_BYTES: u64 = 1024 * 1024 * 1024;
const PIECE_BYTES: usize = 256 * 1024;

/// Fills memory of the named kind. Returns the number of bytes that it got.
pub(crate) fn fill(kind: &str) -> u64 {
    match kind {
        "memory-file" => memory_file(),
        "pipes" => pipes(),
        "unix-sockets" => unix_sockets(),
        "tcp" => connections(),
        "udp" => datagrams(),
        _ => 0,
    }
}

fn memory_file() -> u64 {
    let Ok(file) = rustix::fs::memfd_create("fill", MemfdFlags::CLOEXEC) else { return 0 };
    let mut file = File::from(file);
    let (piece, mut bytes) = (vec![1; PIECE_BYTES], 0);
    while bytes < MOST_MEMORY_BYTES && file.write_all(&piece).is_ok() {
        bytes += piece.len() as u64;
    }
    bytes
}

/// Pipes as large as the kernel gives, that nobody reads.
fn pipes() -> u64 {
    let (mut held, mut bytes) = (Vec::new(), 0);
    while held.len() < MOST_PIPES {
        let Ok((read, write)) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK) else { break };
        let _ = fcntl_setpipe_size(&write, 1024 * 1024);
        let mut write = File::from(write);
        bytes += fill_up(&mut write);
        held.push((read, write));
    }
    bytes
}

fn unix_sockets() -> u64 {
    let (mut held, mut bytes) = (Vec::new(), 0);
    while held.len() < MOST_SOCKETS {
        let Ok((mut one, other)) = UnixStream::pair() else { break };
        if one.set_nonblocking(true).is_err() {
            break;
        }
        bytes += fill_up(&mut one);
        held.push((one, other));
    }
    bytes
}

/// Connections of this process to itself, whose other end never reads.
fn connections() -> u64 {
    let Ok(listener) = TcpListener::bind(("127.0.0.1", 0)) else { return 0 };
    let Ok(address) = listener.local_addr() else { return 0 };
    let (mut held, mut bytes) = (Vec::new(), 0);
    while held.len() < MOST_CONNECTIONS {
        let Ok(mut stream) = TcpStream::connect(address) else { break };
        let Ok((other, _)) = listener.accept() else { break };
        if stream.set_nonblocking(true).is_err() {
            break;
        }
        bytes += fill_up(&mut stream);
        held.push((stream, other));
    }
    bytes
}

/// Datagrams to itself that nobody has read. Those for which there was no room are lost without a word, so the rest is read and counted.
fn datagrams() -> u64 {
    let mut held = Vec::new();
    while held.len() < MOST_DATAGRAM_SOCKETS {
        let Ok(socket) = UdpSocket::bind(("127.0.0.1", 0)) else { break };
        let Ok(own) = socket.local_addr() else { break };
        if socket.set_nonblocking(true).is_err() {
            break;
        }
        for _ in 0..DATAGRAMS {
            let _ = socket.send_to(&[1; DATAGRAM_BYTES], own);
        }
        held.push(socket);
    }
    let mut buffer = [0; DATAGRAM_BYTES];
    let received = held
        .iter()
        .flat_map(|socket| std::iter::from_fn(|| socket.recv(&mut buffer).ok()).collect::<Vec<_>>());
    received.map(|count| count as u64).sum()
}

/// Writes until it would have to wait.
fn fill_up(to: &mut impl Write) -> u64 {
    let (piece, mut bytes) = (vec![1; PIECE_BYTES], 0);
    while let Ok(count) = to.write(&piece) {
        bytes += count as u64;
    }
    bytes
}
