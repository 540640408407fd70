//! The loop at work in a scripted world.

mod crashes;
mod talk;
mod tools;
mod world;
