//! The limit that `bench/rates.py` measures against: an axum handler that does nothing. Prints its address.

use axum::Router;
use axum::routing::get;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    announce(&listener)?;
    axum::serve(listener, Router::new().route("/", get(|| async {}))).await
}

fn announce(listener: &tokio::net::TcpListener) -> std::io::Result<()> {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "http://{}/", listener.local_addr()?)?;
    stdout.flush()
}
