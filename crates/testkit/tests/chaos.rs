//! L29: whatever happens in whatever order, the yard converges: one last state for each job, at most one run, nothing left.
//!
//! Each seed is one random history of requests, faults and crashes; a failing one is named in the message.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use sandyard_server::app::{FailureCode, JobState, WithOutput};
use sandyard_server::audit::verify_lines;
use sandyard_server::job::JobId;
use sandyard_testkit::{TestYard, shell};

/// Attempts that the yard gives a job to start.
const START_ATTEMPTS: u32 = 3;
/// Steps of one history.
const STEPS: usize = 40;

/// A small generator, so that a seed says everything (xorshift64*).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

struct Scheduled {
    id: JobId,
    notes: PathBuf,
    deleted: bool,
    /// True if a test step may end the job early.
    disturbed: bool,
    keeper_killed: bool,
}

struct History {
    chance: Chance,
    jobs: Vec<Scheduled>,
    notes: tempfile::TempDir,
    /// Faults that may cost a job an attempt to start.
    setbacks: u32,
}

impl History {
    async fn step(&mut self, yard: TestYard) -> TestYard {
        match self.chance.below(12) {
            0..=3 => self.schedule(&yard).await,
            4 => self.cancel(&yard).await,
            5 => self.delete(&yard).await,
            6 => self.disturb(&yard, Disturbance::Machine).await,
            7 => self.disturb(&yard, Disturbance::Keeper).await,
            8 => self.disturb(&yard, Disturbance::Link).await,
            9 => self.script(&yard),
            10 => {
                self.setbacks += 1;
                return yard.crash().restart().await.unwrap();
            }
            _ => tokio::time::sleep(Duration::from_millis(self.chance.below(60))).await,
        }
        yard
    }

    async fn schedule(&mut self, yard: &TestYard) {
        let notes = self.notes.path().join(self.jobs.len().to_string());
        let pause = self.chance.below(8);
        let code = format!("echo ran >> {}; echo a; sleep 0.0{pause}; echo b; echo c > c", notes.display());
        let id = yard.schedule(shell(&code)).await.unwrap();
        self.jobs.push(Scheduled { id, notes, deleted: false, disturbed: false, keeper_killed: false });
    }

    fn pick(&mut self) -> Option<usize> {
        let count = u64::try_from(self.jobs.len()).unwrap();
        (count > 0).then(|| usize::try_from(self.chance.below(count)).unwrap())
    }

    async fn cancel(&mut self, yard: &TestYard) {
        let Some(picked) = self.pick() else { return };
        let job = &mut self.jobs[picked];
        if !job.deleted {
            yard.yard.cancel(&yard.job(&job.id).await.unwrap()).await.unwrap();
            job.disturbed = true;
        }
    }

    async fn delete(&mut self, yard: &TestYard) {
        let Some(picked) = self.pick() else { return };
        let job = &mut self.jobs[picked];
        if !std::mem::replace(&mut job.deleted, true) {
            yard.yard.delete(&yard.job(&job.id).await.unwrap()).await.unwrap();
        }
    }

    async fn disturb(&mut self, yard: &TestYard, what: Disturbance) {
        let alive = yard.world.alive();
        let Some(picked) = alive.get(usize::try_from(self.chance.below(5)).unwrap()) else { return };
        match what {
            Disturbance::Machine => {
                yard.world.kill(picked).await;
                for job in self.jobs.iter_mut().filter(|job| yard.sandboxes(&job.id).contains(picked)) {
                    job.disturbed = true;
                }
            }
            Disturbance::Keeper => {
                yard.world.kill_keeper(picked).await;
                for job in self.jobs.iter_mut().filter(|job| yard.sandboxes(&job.id).contains(picked)) {
                    job.keeper_killed = true;
                }
            }
            Disturbance::Link => yard.world.cut_link(picked),
        }
    }

    fn script(&mut self, yard: &TestYard) {
        let (failing, full, refused) = (self.chance.below(2), self.chance.below(2), self.chance.below(3));
        self.setbacks += u32::try_from(failing).unwrap();
        yard.world.script(|faults| {
            faults.failing_starts = u32::try_from(failing).unwrap();
            faults.full_starts = u32::try_from(full).unwrap();
            faults.refused_stops = u32::try_from(refused).unwrap();
        });
    }
}

#[derive(Clone, Copy)]
enum Disturbance {
    Machine,
    Keeper,
    Link,
}

async fn check(seed: u64, yard: &TestYard, history: &History) {
    for job in history.jobs.iter().filter(|job| !job.deleted) {
        let status = yard.ended(&job.id).await.unwrap();
        let runs = std::fs::read_to_string(&job.notes).map_or(0, |text| text.lines().count());
        assert!(runs <= 1, "seed {seed}: {} ran {runs} times", job.id);
        // A keeper that dies between noting the job and forking it leaves it interrupted, which the job says.
        let interrupted = job.keeper_killed && status.exit_code == Some(137) && status.stdout_bytes == 0;
        // A job has three attempts. On a slow host one job may meet three faults while it starts; then it never runs.
        let start_failed =
            status.error.as_ref().is_some_and(|error| error.code == FailureCode::SandboxStartFailed);
        let unlucky = start_failed && history.setbacks >= START_ATTEMPTS && runs == 0;
        if !job.disturbed && !interrupted && !unlucky {
            assert_eq!(status.state, JobState::Succeeded, "seed {seed}: {status:?}");
            assert_eq!((status.stdout_tail.as_str(), runs), ("a\nb\n", 1), "seed {seed}");
        }
        let events = yard.events(&job.id, 0).await.unwrap();
        let ids: Vec<u64> = events.iter().map(|event| event.id).collect();
        assert_eq!(ids, (1..=events.len() as u64).collect::<Vec<_>>(), "seed {seed}");
        assert!(
            yard.yard.download(&yard.job(&job.id).await.unwrap()).await.is_ok(),
            "seed {seed}: {status:?}"
        );
        check_audit(seed, yard, &job.id, status.state).await;
    }
    yard.wait_world("no machine is left", |world| world.markers().is_empty()).await.unwrap();
    for job in history.jobs.iter().filter(|job| job.deleted) {
        assert!(yard.status(&job.id, WithOutput::Without).await.is_err(), "seed {seed}");
        assert!(!yard.job_folder(&job.id).exists(), "seed {seed}: the folder of a deleted job is left");
    }
    assert_eq!(yard.world.breaches(), Vec::<String>::new(), "seed {seed}");
}

/// However often its server died, a job's chain has no hole and no fork, and ends with its last state.
async fn check_audit(seed: u64, yard: &TestYard, id: &JobId, state: JobState) {
    let audit = yard.yard.audit(&yard.job(id).await.unwrap(), 0).await.unwrap();
    let bytes: Vec<u8> = audit.lines.map(|line| line.unwrap().to_vec()).collect::<Vec<_>>().await.concat();
    let text = String::from_utf8(bytes).unwrap();
    let verdict = verify_lines(&text, Some(yard.yard.audit_key())).unwrap();
    assert!(verdict.faults.is_empty(), "seed {seed}: {:?}\n{text}", verdict.faults);
    let last = text.lines().rev().find(|line| line.contains("\"kind\":\"state\"")).unwrap();
    assert!(last.contains(&format!("\"state\":\"{}\"", state.as_str())), "seed {seed}: {last}");
}

async fn live_through(seed: u64) {
    let mut yard = TestYard::with(|config| config.admission.concurrency = 4).await.unwrap();
    let notes = tempfile::tempdir().unwrap();
    let mut history = History { chance: Chance(seed), jobs: Vec::new(), notes, setbacks: 0 };
    for _ in 0..STEPS {
        yard = history.step(yard).await;
    }
    yard.world.script(|faults| *faults = sandyard_conformance::fake::Faults::default());
    yard = yard.crash().restart().await.unwrap();
    check(seed, &yard, &history).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l29_random_histories_converge() {
    let soak = std::env::var_os("SANDYARD_SOAK").is_some();
    let more = if soak { 100..200 } else { 0..0 };
    for seed in [1, 2, 3, 5, 8, 13, 21, 34].into_iter().chain(more) {
        live_through(seed).await;
    }
}
