//! A driver's own code, run so that a panic in it is an error like any other: whoever waits for it would wait for ever otherwise.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// What the future comes to, or the words of the panic that ended it. Nothing of the future is looked at after a panic.
pub(super) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let ended = AssertUnwindSafe(future).catch_unwind().await;
    ended.map_err(|panic| format!("the driver has a fault: {}", words(panic.as_ref())))
}

/// A panic carries a text, unless somebody made it by hand.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_told_in_its_own_words() {
        assert_eq!(caught(async { 1 }).await, Ok(1));
        let number = 7;
        let told = caught(async { assert!(number == 0, "slot {number} is taken") }).await;
        assert_eq!(told.unwrap_err(), "the driver has a fault: slot 7 is taken");
        let told = caught(async { assert!(number == 0, "taken") }).await;
        assert_eq!(told.unwrap_err(), "the driver has a fault: taken");
    }
}
