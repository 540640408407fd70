//! What drivers put machines together from on this host. Every driver uses these, none owns them.
//!
//! `layout` is what a sandbox looks like inside; `links` where it dials; `disk` and `image_disk` its writable disk; `programs` the
//! guest's programs; `ids` its users on the host; `cgroup` limits, counts and kills. `records` are the durable markers,
//! `liveness` judges processes, `locks` keep calls about one sandbox apart, `yard_id` tells yards apart. `sandboxes` is all of these
//! together: what a driver can say of its sandboxes however it makes them. `console`, `machine_plan`, `machine_image`,
//! `machine_control` and `timer_threads` are for virtual machines. `requirements` looks at the host before anything is tried,
//! `steps` name what a start does and let tests fail it, `trial` really starts a sandbox. `sys` holds the unsafe code.
//! A driver has a data directory of its own: two drivers of one yard share neither markers nor names.

pub(crate) mod cgroup;
pub(crate) mod console;
pub(crate) mod disk;
pub(crate) mod file_systems;
pub(crate) mod ids;
pub(crate) mod image_disk;
pub(crate) mod layout;
pub(crate) mod links;
pub(crate) mod liveness;
pub(crate) mod locks;
pub(crate) mod machine_control;
pub(crate) mod machine_image;
pub(crate) mod machine_plan;
pub(crate) mod patience;
pub(crate) mod programs;
pub(crate) mod records;
pub(crate) mod requirements;
pub(crate) mod sandboxes;
pub(crate) mod steps;
pub(crate) mod sys;
pub(crate) mod timer_threads;
pub(crate) mod trial;
pub(crate) mod version;
pub(crate) mod yard_id;
