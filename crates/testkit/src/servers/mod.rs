//! Real servers for tests: each in a directory of its own, on a port of its own, gone when the test is.
//!
//! [`Server`] is what all of them share: it starts a program, waits until it answers, freezes, kills and restarts it,
//! and ends it by its process id when it is dropped, also when the test fails; then it shows what the server wrote. If
//! the whole test process is killed, the kernel ends the server. [`redis`] builds Redis and Valkey on it, in every shape.
//!
//! A program that is not installed fails the test, with the words "run scripts/setup".

mod port;
mod program;
pub mod redis;
mod server;
mod spawner;

pub use port::Port;
pub use program::Program;
pub use server::{Launch, Server};
