//! Turns a panic in a driver's code into an error. Otherwise the callers that wait for the driver would wait forever.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// Runs a future. Returns its output, or the message of the panic that ended it. The future is not used after a panic.
pub(super) async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let ended = AssertUnwindSafe(future).catch_unwind().await;
    ended.map_err(|panic| format!("the driver has a fault: {}", message(panic.as_ref())))
}

/// Returns the text of a panic. `panic_any` makes panics without one.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_told_in_its_own_words() {
        assert_eq!(catch_panic(async { 1 }).await, Ok(1));
        let number = 7;
        let told = catch_panic(async { assert!(number == 0, "slot {number} is taken") }).await;
        assert_eq!(told.unwrap_err(), "the driver has a fault: slot 7 is taken");
        let told = catch_panic(async { assert!(number == 0, "taken") }).await;
        assert_eq!(told.unwrap_err(), "the driver has a fault: taken");
    }
}
