use proptest::prelude::*;
use sandyard_protocol::{ProcessId, TerminalSize};

use super::*;
use crate::init::messages::{HoldReply, HoldRequest, StreamPart};
use crate::process_host::{Command, RawExit};
use crate::spawner::messages::{
    RollEntry, SpawnerCall, SpawnerMessage, SpawnerOutcome, SpawnerQuestion, SpawnerRequest,
};

fn round_trip<T: Serialize + DeserializeOwned>(message: &T, fds: Vec<OwnedFd>) -> ReceivedPacket<T> {
    let (ours, theirs) = pair().unwrap();
    LocalPacket::new(message, fds).unwrap().send(ours.as_fd()).unwrap();
    receive(theirs.as_fd()).unwrap().unwrap()
}

fn command() -> impl Strategy<Value = Command> {
    let strings = || prop::collection::vec(any::<String>(), 0..4);
    let env = prop::collection::btree_map(any::<String>(), any::<String>(), 0..4);
    let terminal = prop::option::of(
        (any::<u16>(), any::<u16>()).prop_map(|(columns, rows)| TerminalSize { columns, rows }),
    );
    (any::<String>(), strings(), any::<String>(), env, terminal, any::<bool>()).prop_map(
        |(id, argv, cwd, env, terminal, stdin)| Command {
            id: ProcessId(id),
            argv,
            cwd,
            env,
            terminal,
            stdin,
        },
    )
}

fn exit() -> impl Strategy<Value = RawExit> {
    (any::<String>(), any::<i32>(), any::<Option<i32>>()).prop_map(|(id, code, signal)| RawExit {
        id: ProcessId(id),
        code,
        signal,
    })
}

fn question() -> impl Strategy<Value = SpawnerQuestion> {
    any::<(u64, u64)>().prop_map(|(session, number)| SpawnerQuestion { session, number })
}

fn call() -> impl Strategy<Value = SpawnerCall> {
    let id = || any::<String>().prop_map(ProcessId);
    prop_oneof![
        command().prop_map(SpawnerCall::Spawn),
        (id(), any::<i32>()).prop_map(|(id, signal)| SpawnerCall::Signal { id, signal }),
        (id(), any::<i32>()).prop_map(|(id, signal)| SpawnerCall::SignalDeaf { id, signal }),
        Just(SpawnerCall::KillEverything),
        id().prop_map(|id| SpawnerCall::Forget { id }),
        Just(SpawnerCall::Roll),
    ]
}

fn outcome() -> impl Strategy<Value = SpawnerOutcome> {
    let entry = (any::<String>(), any::<i32>(), prop::option::of(exit()))
        .prop_map(|(id, pid, exit)| RollEntry { id: ProcessId(id), pid, exit });
    prop_oneof![
        any::<(i32, bool, bool)>().prop_map(|(pid, stdin, stderr)| SpawnerOutcome::Spawned {
            pid,
            stdin,
            stderr
        }),
        Just(SpawnerOutcome::Done),
        any::<(String, i32)>().prop_map(|(what, errno)| SpawnerOutcome::Refused { what, errno }),
        prop::collection::vec(entry, 0..4).prop_map(SpawnerOutcome::Roll),
    ]
}

proptest! {
    #[test]
    fn requests_survive(question in question(), call in call()) {
        let request = SpawnerRequest { question, call };
        prop_assert_eq!(round_trip(&request, Vec::new()).message, request);
    }

    #[test]
    fn what_the_spawner_tells_survives(question in question(), outcome in outcome(), exit in exit()) {
        let answer = SpawnerMessage::Answer { question, outcome };
        prop_assert_eq!(round_trip(&answer, Vec::new()).message, answer);
        let exit = SpawnerMessage::Exit(exit);
        prop_assert_eq!(round_trip(&exit, Vec::new()).message, exit);
    }

    #[test]
    fn any_bytes_are_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
        let (ours, theirs) = pair().unwrap();
        LocalPacket { body: bytes, fds: Vec::new() }.send(ours.as_fd()).unwrap();
        prop_assert!(receive::<SpawnerRequest>(theirs.as_fd()).is_err());
    }
}

#[test]
fn a_long_message_travels_in_a_memory_file_beside_its_descriptors() {
    let long = HoldRequest::Hold { id: ProcessId("x".repeat(PACKET_BYTES * 4)), part: StreamPart::Input };
    let (read, write) = rustix::pipe::pipe().unwrap();
    let received = round_trip(&long, vec![write]);
    assert_eq!(received.message, long);
    rustix::io::write(&received.fds[0], b"through").unwrap();
    drop(received);
    assert_eq!(read_bounded(read, 100).unwrap(), b"through");
}

#[test]
fn a_message_beyond_the_bound_is_refused_by_the_receiver() {
    let (ours, theirs) = pair().unwrap();
    let file = memory_file(&vec![b' '; LOCAL_MESSAGE_BYTES + 1]).unwrap();
    LocalPacket { body: IN_MEMORY_FILE.to_vec(), fds: vec![file] }.send(ours.as_fd()).unwrap();
    let error = receive::<HoldReply>(theirs.as_fd()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn a_closed_peer_is_an_end_and_an_empty_socket_would_block() {
    let (ours, theirs) = pair().unwrap();
    assert_eq!(receive::<HoldReply>(theirs.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(ours);
    assert!(receive::<HoldReply>(theirs.as_fd()).unwrap().is_none());
}
