//! Machines: the contract every driver keeps, the drivers, and the images they run.
//!
//! Knows neither jobs nor HTTP. A driver starts and stops sandboxes and yields byte streams for them; `machine`
//! speaks the guest protocol over such a stream and is the same for every driver.

pub mod driver;
pub mod drivers;
pub mod guest_programs;
mod host;
pub mod image;
pub mod machine;
pub mod reader;
pub mod warden;
