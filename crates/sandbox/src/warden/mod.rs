//! The warden: one privileged process that owns the drivers, and the server's end of the socket to it.
//!
//! The server parses what strangers and sandboxes send, so it runs without privileges. All that needs them is the trait
//! [`Driver`](crate::driver::Driver), so a second process serves that trait over a socket pair ([`WardenService`]), and the server
//! forwards each call to it ([`WardenClient`]). A link is passed as a descriptor: its bytes do not go through the warden.
//!
//! The warden takes no path from the server. A sandbox is named by an id, an image by its digest, a workspace by a name
//! ([`WorkspacePlaces`]), and limits are held to the operator's ([`service`]). So a server in wrong hands can start, stop and list
//! sandboxes of its yard, and nothing else. Messages are packets of JSON with a bound on their size (`messages`).
//!
//! Either process may die. A warden whose socket closes ends and leaves the sandboxes alone; a server whose warden is gone gets
//! no more answers ([`WardenClient::closed`]) and ends; the next server and its warden adopt the sandboxes.

mod client;
mod connection;
mod faults;
mod handover;
mod messages;
mod places;
mod remote_driver;
mod service;
mod socket;

pub use client::{OpenWardenError, WardenClient};
pub use handover::{pair, receive_plan, send_plan};
pub use places::{ServerUser, WorkspaceName, WorkspacePlaces};
pub use service::{ImageStates, WardenService, refuse};
