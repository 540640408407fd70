//! The command on a terminal: an interactive shell, and Ctrl-C at a running job.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::{Child, Command};

use crate::served::{PATIENCE, Served};

/// A person at a terminal.
struct Person {
    keyboard: File,
    screen: tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>,
    seen: String,
    child: Child,
}

impl Person {
    /// Starts the command on a terminal of 100 × 30.
    fn at(mut command: Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours: OwnedFd = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let theirs = || Stdio::from(File::options().read(true).write(true).open(&name).unwrap());
        let child = command.stdin(theirs()).stdout(theirs()).stderr(theirs()).spawn().unwrap();
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

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen has shown this.
    async fn sees(&mut self, text: &str) {
        let wait = async {
            while !self.seen.contains(text) {
                let bytes = self.screen.recv().await.expect("the terminal was closed");
                self.seen += &String::from_utf8_lossy(&bytes);
            }
        };
        let result = tokio::time::timeout(PATIENCE, wait).await;
        assert!(result.is_ok(), "`{text}` was not shown:\n{}", self.seen);
    }

    fn interrupts(&self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    async fn leaves(mut self) -> i32 {
        let status =
            tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it does not end").unwrap();
        status.code().unwrap()
    }
}

#[tokio::test]
async fn an_interactive_shell_has_size_keys_and_exit_code() {
    let yard = Served::start().await;
    let id = yard.session().await;
    let mut person = Person::at(yard.command(&["shell", &id]));
    person.types("stty size; echo ma''rk\n");
    person.sees("30 100").await;
    person.sees("mark").await;
    person.types("exit 5\n");
    assert_eq!(person.leaves().await, 5);
}

#[tokio::test]
async fn ctrl_c_asks_and_a_job_that_is_left_goes_on() {
    let yard = Served::start().await;
    let mut person = Person::at(yard.command(&["run", "--kind", "shell", "echo be''gun; sleep 60"]));
    person.sees("begun").await;
    person.interrupts();
    person.sees("[c]ancel the job, [l]eave it running, or [w]atch on?").await;
    person.types("w\n");
    person.sees("watching on").await;
    person.interrupts();
    person.types("l\n");
    assert_eq!(person.leaves().await, 130);
    let listed = yard.run(&["ps", "--json"]).await.json();
    assert_eq!(listed["jobs"][0]["state"], "running");
    let id = listed["jobs"][0]["job_id"].as_str().unwrap();
    yard.run(&["rm", "--force", id]).await.expect(0);
}

#[tokio::test]
async fn ctrl_c_twice_cancels() {
    let yard = Served::start().await;
    let mut person = Person::at(yard.command(&["run", "--kind", "shell", "echo be''gun; sleep 60"]));
    person.sees("begun").await;
    person.interrupts();
    person.sees("atch on?").await;
    person.interrupts();
    person.sees("cancelling").await;
    assert_eq!(person.leaves().await, 6);
}
