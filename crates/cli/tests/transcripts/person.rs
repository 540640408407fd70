//! A person at a terminal: starts a command on a pseudo terminal, types, and sees.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::{Child, Command};

use crate::served::PATIENCE;

/// A person at a terminal.
pub(crate) struct Person {
    keyboard: File,
    screen: tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>,
    pub(crate) seen: String,
    child: Child,
}

impl Person {
    /// Starts the command on a terminal of 100 × 30.
    pub(crate) fn at(command: Command) -> Self {
        Self::at_width(command, 100)
    }

    /// Starts the command on a terminal with this many columns.
    pub(crate) fn at_width(mut command: Command, columns: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours: OwnedFd = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: 30, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let theirs = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        let child = command.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
        // The command's own ends must be the last ones, or the screen never ends.
        drop(command);
        let keyboard = File::from(ours);
        let mut reader = keyboard.try_clone().unwrap();
        let (sender, screen) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails once nobody has the other side open.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { keyboard, screen, seen: String::new(), child }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen has shown this.
    pub(crate) async fn sees(&mut self, text: &str) {
        let wait = async {
            while !self.seen.contains(text) {
                let bytes = self.screen.recv().await.expect("the terminal was closed");
                self.seen += &String::from_utf8_lossy(&bytes);
            }
        };
        let result = tokio::time::timeout(PATIENCE, wait).await;
        assert!(result.is_ok(), "`{text}` was not shown:\n{}", self.seen);
    }

    /// Waits a moment for the screen to show this.
    pub(crate) async fn sees_soon(&mut self, text: &str) -> bool {
        let wait = async {
            while !self.seen.contains(text) {
                let bytes = self.screen.recv().await.expect("the terminal was closed");
                self.seen += &String::from_utf8_lossy(&bytes);
            }
        };
        tokio::time::timeout(std::time::Duration::from_millis(500), wait).await.is_ok()
    }

    pub(crate) fn interrupts(&self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    pub(crate) async fn leaves(mut self) -> i32 {
        let status =
            tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it does not end").unwrap();
        status.code().unwrap()
    }

    /// Waits for the end of the command. Returns its code and all that the terminal has shown.
    pub(crate) async fn watches_to_the_end(mut self) -> (i32, String) {
        let status =
            tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it does not end").unwrap();
        let code = status.code().unwrap();
        // Once nobody has the other side open, the screen is complete.
        while let Ok(Some(bytes)) = tokio::time::timeout(PATIENCE, self.screen.recv()).await {
            self.seen += &String::from_utf8_lossy(&bytes);
        }
        (code, self.seen)
    }
}
