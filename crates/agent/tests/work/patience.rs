//! The patience of a loop with a model that can't be reached, by a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use sandyard_agent::AgentEnd;
use sandyard_protocol::{JournalEntry, ModelFailure, ModelFailureCode};
use tokio::time::Instant;

use crate::world::{Answer, World, finish};

/// Turns of the runtime in each second of the clock, in which the sockets between loop and world carry a call and its answer.
const TURNS: usize = 200;

fn unreachable() -> ModelFailure {
    ModelFailure { code: ModelFailureCode::Unavailable, message: "nobody answers".into() }
}

/// Runs a loop to its end and returns the time that passed.
async fn work(world: &Arc<World>) -> (AgentEnd, Duration) {
    // While a blocking task runs, the runtime does not move the clock by itself. It would outrun the sockets.
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let holder = tokio::task::spawn_blocking(move || held.recv());
    let began = Instant::now();
    let working = tokio::spawn(sandyard_agent::run(world.socket()));
    while !working.is_finished() {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        assert!(began.elapsed() < Duration::from_secs(3600), "the loop does not give up");
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    let passed = began.elapsed();
    drop(hold);
    let _ = holder.await;
    (working.await.unwrap(), passed)
}

#[tokio::test(start_paused = true)]
async fn a_model_that_can_not_be_reached_is_given_up_after_ten_minutes() {
    let world = World::new("t", |_| Err(unreachable()));
    let (end, passed) = work(&world).await;
    assert_eq!(end, AgentEnd::GaveUp);
    let entries = world.entries();
    let Some(JournalEntry::GaveUp { reason }) = entries.last() else { panic!("{entries:?}") };
    assert_eq!(reason, "the model could not be reached for ten minutes: nobody answers");
    // No call begins that could not wait its turn: the last pause is a minute.
    assert!((540..=601).contains(&passed.as_secs()), "{passed:?}");
    let asked = world.state().asked.len();
    assert!((10..40).contains(&asked), "{asked} calls");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_comes_back_in_time_goes_on() {
    let began = Instant::now();
    let world = World::new("t", move |_| {
        if began.elapsed() < Duration::from_secs(400) {
            return Err(unreachable());
        }
        Ok(Answer { calls: vec![finish()], ..Answer::default() })
    });
    let (end, passed) = work(&world).await;
    assert_eq!(end, AgentEnd::Finished);
    assert!((400..=470).contains(&passed.as_secs()), "{passed:?}");
}
