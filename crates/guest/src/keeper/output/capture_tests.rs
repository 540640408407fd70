//! Retention, followers and their patience.

use std::io::Write as _;

use super::*;

const CHUNK: usize = 32 * 1024;

struct Flow {
    _folder: tempfile::TempDir,
    capture: Arc<Capture>,
    reader: io::PipeReader,
    writer: io::PipeWriter,
}

impl Flow {
    fn new(retention: Retention) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let capture = Arc::new(Capture::open(folder.path().join("s"), retention).unwrap());
        let (reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        Self { _folder: folder, capture, reader, writer }
    }

    /// Writes a chunk and takes it; what `take` said last.
    fn flow(&mut self) -> TakenBytes {
        self.writer.write_all(&[7; CHUNK]).unwrap();
        loop {
            match self.capture.take_from_pipe(&self.reader).unwrap() {
                TakenBytes::Bytes(_) => {}
                other => return other,
            }
        }
    }
}

#[test]
fn unacknowledged_output_stops_the_flow_at_the_bound_and_an_acknowledgement_frees_it() {
    let mut flow = Flow::new(Retention::UntilAcknowledged);
    while flow.flow() == TakenBytes::Nothing {}
    assert_eq!(flow.capture.bytes(), SPOOL_BYTES);
    assert_eq!(flow.capture.quiet_for(), Duration::ZERO, "a blocked process is not idle");
    flow.capture.acknowledge(flow.capture.end());
    assert_eq!(flow.flow(), TakenBytes::Nothing);
}

#[test]
fn recent_output_is_bounded_and_a_late_follower_is_told_what_it_lost() {
    let mut flow = Flow::new(Retention::Recent);
    for _ in 0..3 * REPLAY_BYTES / CHUNK {
        assert_eq!(flow.flow(), TakenBytes::Nothing);
    }
    assert!(flow.capture.bytes() <= REPLAY + crate::limits::SEGMENT_BYTES);
    let mut follower = Follower::new(flow.capture.clone(), 0);
    let mut buffer = vec![0; CHUNK];
    let Ok(Piece::Lost(lost)) = follower.read(&mut buffer) else { panic!("nothing was lost") };
    assert_eq!(lost + flow.capture.bytes(), flow.capture.end());
    assert!(matches!(follower.read(&mut buffer), Ok(Piece::Bytes { offset, .. }) if offset == lost));
}

#[test]
fn a_follower_holds_the_process_back_instead_of_losing_output() {
    let mut flow = Flow::new(Retention::Recent);
    let mut follower = Follower::new(flow.capture.clone(), 0);
    while flow.flow() == TakenBytes::Nothing {}
    assert_eq!(flow.capture.end(), REPLAY);
    let mut buffer = vec![0; CHUNK];
    assert!(matches!(follower.read(&mut buffer), Ok(Piece::Bytes { offset: 0, .. })));
    assert_eq!(flow.flow(), TakenBytes::Full);
    assert_eq!(flow.capture.end(), REPLAY + CHUNK as u64);
    drop(follower);
    assert_eq!(flow.flow(), TakenBytes::Nothing, "without followers nothing is held back");
}

#[test]
fn patience_with_a_slow_follower_ends() {
    let mut flow = Flow::new(Retention::Recent);
    let mut follower = Follower::new(flow.capture.clone(), 0);
    while flow.flow() == TakenBytes::Nothing {}
    flow.capture.state().blocked_since = Instant::now().checked_sub(FOLLOWER_TIMEOUT);
    assert_eq!(flow.capture.take_from_pipe(&flow.reader).unwrap(), TakenBytes::Full);
    for _ in 0..2 * REPLAY_BYTES / CHUNK {
        assert_eq!(flow.flow(), TakenBytes::Nothing);
    }
    let mut buffer = vec![0; CHUNK];
    assert!(matches!(follower.read(&mut buffer), Ok(Piece::Lost(_))));
}

#[test]
fn a_follower_sees_the_end_only_after_everything() {
    let mut flow = Flow::new(Retention::Recent);
    flow.flow();
    flow.capture.close();
    let mut follower = Follower::new(flow.capture.clone(), 5);
    let mut buffer = vec![0; 2 * CHUNK];
    assert_eq!(follower.read(&mut buffer).unwrap(), Piece::Bytes { offset: 5, count: CHUNK - 5 });
    assert_eq!(follower.read(&mut buffer).unwrap(), Piece::End);
}
