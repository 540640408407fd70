//! The first packet of a warden's socket: the plan of its yard and the yard's lock. The server sends it while it still is root.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::host::packets;

/// Makes the socket pair of a server and its warden.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    packets::pair()
}

/// Sends the plan and the lock. The lock is held until both processes are gone.
pub fn send_plan<T: Serialize>(socket: BorrowedFd<'_>, plan: &T, lock: BorrowedFd<'_>) -> io::Result<()> {
    packets::send(socket, &packets::encode(plan)?, &[lock])
}

/// Receives the plan and the lock. Blocks.
pub fn receive_plan<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<(T, OwnedFd)> {
    let packet = packets::receive(socket.as_fd())?;
    let [lock] =
        <[OwnedFd; 1]>::try_from(packet.fds).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((packets::decode(&packet.bytes)?, lock))
}
