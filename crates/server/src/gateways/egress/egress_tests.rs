//! The gateway between a client on one side and real servers on loopback, which an operator's exception lets it reach.

use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

use super::socks::SocksReply;
use super::*;

/// A name that every resolver knows; reached by exception only.
const HOST: &str = "localhost";

struct EgressWorld {
    gateway: Arc<EgressGateway>,
    told: mpsc::Receiver<EgressAttempt>,
    port: u16,
}

impl EgressWorld {
    /// A server that sends back what it gets, as an HTTP body where HTTP was spoken, and a gateway that may reach it.
    async fn new(limits: EgressLimits, rule: &str) -> Self {
        Self::serving(limits, rule, echo).await
    }

    async fn serving<F>(limits: EgressLimits, rule: &str, serve: fn(TcpStream) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        let exceptions = ["127.0.0.1", "::1"].map(|text| PrivateException {
            host: HOST.into(),
            port,
            address: text.parse::<IpAddr>().unwrap(),
        });
        let policy = EgressPolicy::parse([rule.replace("PORT", &port.to_string()).as_str()]).unwrap();
        let (attempts, told) = mpsc::channel(64);
        Self {
            gateway: EgressGateway::new(policy, exceptions.into(), &limits, 0, attempts, None),
            told,
            port,
        }
    }

    async fn open() -> Self {
        Self::new(EgressLimits::default(), "localhost:PORT").await
    }

    fn connect(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let gateway = Arc::clone(&self.gateway);
        let (read, write) = tokio::io::split(server);
        tokio::spawn(async move { gateway.serve(read, write).await });
        client
    }

    /// Sends a head and returns the status line of the answer.
    async fn ask(&self, head: &str) -> (DuplexStream, String) {
        let mut client = self.connect();
        client.write_all(head.replace("PORT", &self.port.to_string()).as_bytes()).await.unwrap();
        let line = line(&mut client).await;
        (client, line)
    }

    async fn next(&mut self) -> AttemptOutcome {
        self.attempt().await.outcome
    }

    async fn attempt(&mut self) -> EgressAttempt {
        tokio::time::timeout(Duration::from_secs(5), self.told.recv()).await.unwrap().unwrap()
    }

    /// An open tunnel to the server.
    async fn tunnel(&self) -> DuplexStream {
        let (mut client, status) = self.ask("CONNECT localhost:PORT HTTP/1.1\r\n\r\n").await;
        assert_eq!(status, "HTTP/1.1 200 OK");
        skip_head(&mut client).await;
        client
    }
}

async fn echo(mut stream: TcpStream) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        if bytes.starts_with(b"GET ") {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
        }
        if stream.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
}

/// Speaks first, as SSH and SMTP do, then sends back what it gets.
async fn banner(mut stream: TcpStream) {
    stream.write_all(b"220 ready\r\n").await.unwrap();
    echo(stream).await;
}

/// Takes an upgrade, then sends back what it gets.
async fn web_socket(mut stream: TcpStream) {
    let mut bytes = vec![0; 4096];
    let count = stream.read(&mut bytes).await.unwrap();
    assert!(String::from_utf8_lossy(&bytes[..count]).contains("pgrade: websocket"));
    let head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    stream.write_all(head).await.unwrap();
    echo(stream).await;
}

/// A whole greeting of TLS without any name.
fn nameless_hello() -> Vec<u8> {
    let mut hello = vec![22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    hello.extend([0; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    hello
}

async fn line(client: &mut DuplexStream) -> String {
    let mut line = Vec::new();
    while let Ok(byte) = client.read_u8().await {
        if byte == b'\n' {
            break;
        }
        line.push(byte);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

async fn skip_head(client: &mut DuplexStream) {
    while !line(client).await.is_empty() {}
}

#[tokio::test]
async fn a_tunnel_carries_bytes_and_its_account_is_told() {
    let mut world = EgressWorld::open().await;
    let (mut client, status) =
        world.ask("CONNECT localhost:PORT HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    skip_head(&mut client).await;
    client.write_all(b"hello").await.unwrap();
    let mut echo = [0; 5];
    client.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"hello");
    assert_eq!(world.next().await, AttemptOutcome::Allowed);
    drop(client);
    assert_eq!(world.next().await, AttemptOutcome::Closed { sent: 5, received: 5 });
}

#[tokio::test]
async fn tunnels_end_when_the_job_is_no_longer_followed() {
    let world = EgressWorld::open().await;
    let (mut client, _) = world.ask("CONNECT localhost:PORT HTTP/1.1\r\n\r\n").await;
    skip_head(&mut client).await;
    client.write_all(b"x").await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'x');
    world.gateway.end_tunnels();
    let ended = tokio::time::timeout(Duration::from_secs(5), client.read(&mut [0; 1])).await;
    assert_eq!(ended.unwrap().unwrap_or(0), 0);
}

#[tokio::test]
async fn socks_carries_bytes_by_name_and_refuses_addresses() {
    let mut world = EgressWorld::open().await;
    let mut client = world.connect();
    client.write_all(&[5, 1, 0]).await.unwrap();
    let mut request = vec![5, 0, 5, 1, 0, 3, 9];
    request.extend(HOST.bytes());
    request.extend(world.port.to_be_bytes());
    client.write_all(&request[2..]).await.unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer[..4], [5, 0, 5, 0]);
    client.write_all(b"x").await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'x');
    assert_eq!(world.next().await, AttemptOutcome::Allowed);

    let mut client = world.connect();
    client.write_all(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80]).await.unwrap();
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer[2..4], [5, SocksReply::NotAllowed as u8]);
}

#[tokio::test]
async fn n14_what_is_not_allowed_is_refused_and_told() {
    let mut world = EgressWorld::open().await;
    for (head, status) in [
        ("CONNECT example.com:443 HTTP/1.1\r\n\r\n", "HTTP/1.1 403 Forbidden"),
        ("CONNECT 127.0.0.1:PORT HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("CONNECT 2130706433:PORT HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("CONNECT localhost:1 HTTP/1.1\r\n\r\n", "HTTP/1.1 403 Forbidden"),
        ("GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 403 Forbidden"),
        ("GET /schedule HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET https://localhost:PORT/ HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET http://u@localhost:PORT/ HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET http://localhost:PORT/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "HTTP/1.1 400 Bad Request"),
    ] {
        assert_eq!(world.ask(head).await.1, status, "{head}");
    }
    let AttemptOutcome::Refused(refusal) = world.next().await else { panic!("not told") };
    let reason = refusal.to_string();
    assert!(reason.contains("example.com:443") && reason.contains("egress"), "{reason}");
}

#[tokio::test]
async fn n25_attempts_to_reach_an_address_are_told_with_it() {
    let mut world = EgressWorld::open().await;
    for (head, named) in [
        ("CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", "169.254.169.254:80"),
        ("GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", "169.254.169.254:80"),
        ("CONNECT [fd00:ec2::254]:443 HTTP/1.1\r\n\r\n", "[fd00:ec2::254]:443"),
        ("CONNECT 2130706433:22 HTTP/1.1\r\n\r\n", "2130706433:22"),
        ("GET http://u@example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com:80"),
    ] {
        assert_eq!(world.ask(head).await.1, "HTTP/1.1 400 Bad Request", "{head}");
        let attempt = world.attempt().await;
        assert_eq!(attempt.target, named);
        assert!(matches!(attempt.outcome, AttemptOutcome::Refused(_)), "{attempt:?}");
    }
    for (address, named) in [
        (&[1, 169, 254, 169, 254, 0, 80][..], "169.254.169.254:80"),
        (&[4, 0xfd, 0, 0xe, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x54, 1, 187], "[fd00:ec2::254]:443"),
        (&[3, 3, b'a', 0x1b, b'b', 0, 80], "a\u{1b}b:80"),
    ] {
        let mut client = world.connect();
        client.write_all(&[&[5, 1, 0, 5, 1, 0], address].concat()).await.unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[2..4], [5, SocksReply::NotAllowed as u8]);
        assert_eq!(world.attempt().await.target, named);
    }
}

#[tokio::test]
async fn n2_the_first_bytes_are_judged_however_late_they_come() {
    let mut world = EgressWorld::open().await;
    let mut client = world.tunnel().await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    client.write_all(&nameless_hello()).await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap_or(0), 0, "the tunnel is closed");
    assert_eq!(world.next().await, AttemptOutcome::Allowed);
    assert!(matches!(world.next().await, AttemptOutcome::Refused(EgressRefusal::OtherName { .. })));
    assert_eq!(world.next().await, AttemptOutcome::Closed { sent: 0, received: 0 });
}

#[tokio::test]
async fn a_server_may_speak_first() {
    let mut world = EgressWorld::serving(EgressLimits::default(), "localhost:PORT", banner).await;
    let mut client = world.tunnel().await;
    assert_eq!(line(&mut client).await, "220 ready");
    client.write_all(b"EHLO me.example\r\n").await.unwrap();
    assert_eq!(line(&mut client).await, "EHLO me.example");
    // After the server's word the client's is judged all the same.
    let mut client = world.tunnel().await;
    assert_eq!(line(&mut client).await, "220 ready");
    client.write_all(&nameless_hello()).await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap_or(0), 0);
    let mut refused = false;
    for _ in 0..4 {
        refused |= matches!(world.next().await, AttemptOutcome::Refused(EgressRefusal::OtherName { .. }));
    }
    assert!(refused);
}

#[tokio::test]
async fn n2_every_request_in_a_tunnel_names_its_host() {
    let mut world = EgressWorld::open().await;
    for other in [
        "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost:PORT\r\nHost: evil.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
        "\r\nget / HTTP/1.0\r\nHost: evil.example\r\n\r\n",
        "CONNECT localhost:PORT HTTP/1.1\r\nHost: localhost:PORT\r\n\r\n",
    ] {
        let other = other.replace("PORT", &world.port.to_string());
        // As the first request, and as the second one of a connection that is kept.
        for before in [0, 1] {
            let mut client = world.tunnel().await;
            for _ in 0..before {
                let own = format!("GET /own HTTP/1.1\r\nHost: localhost:{}\r\nX-Case: 1\r\n\r\n", world.port);
                client.write_all(own.as_bytes()).await.unwrap();
                assert_eq!(line(&mut client).await, "HTTP/1.1 200 OK");
                skip_head(&mut client).await;
                assert_eq!(line(&mut client).await, "GET /own HTTP/1.1");
                skip_head(&mut client).await;
            }
            client.write_all(other.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
            let rest = String::from_utf8_lossy(&rest);
            assert!(rest.contains(" 403 Forbidden\r\n") && !rest.contains(" 200 "), "{other} {rest}");
            assert_eq!(world.next().await, AttemptOutcome::Allowed);
            assert!(matches!(world.next().await, AttemptOutcome::Refused(EgressRefusal::OtherName { .. })));
            let AttemptOutcome::Closed { sent, .. } = world.next().await else { panic!("not closed") };
            assert_eq!(sent > 0, before > 0, "{other}");
        }
    }
}

#[tokio::test]
async fn n2_a_request_in_pieces_is_no_other_protocol() {
    let mut world = EgressWorld::open().await;
    let mut client = world.tunnel().await;
    client.write_all(b"GE").await.unwrap();
    assert_eq!((client.read_u8().await.unwrap(), client.read_u8().await.unwrap()), (b'G', b'E'), "passed on");
    client.write_all(b"T / HTTP/1.1\r\nHost: evil.example\r\n\r\n").await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap_or(0), 0, "the tunnel is closed");
    assert_eq!(world.next().await, AttemptOutcome::Allowed);
    assert_eq!(world.next().await, AttemptOutcome::Refused(EgressRefusal::UnknownHost));
    assert_eq!(world.next().await, AttemptOutcome::Closed { sent: 2, received: 2 });
}

#[tokio::test]
async fn web_sockets_pass_a_tunnel_without_tls() {
    let world = EgressWorld::serving(EgressLimits::default(), "localhost:PORT", web_socket).await;
    let mut client = world.tunnel().await;
    let head = format!(
        "GET /socket HTTP/1.1\r\nHost: localhost:{}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        world.port
    );
    client.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(line(&mut client).await, "HTTP/1.1 101 Switching Protocols");
    skip_head(&mut client).await;
    client.write_all(b"\x81\x02hi").await.unwrap();
    let mut frame = [0; 4];
    client.read_exact(&mut frame).await.unwrap();
    assert_eq!(&frame, b"\x81\x02hi");
}

#[tokio::test]
async fn n6_an_allowed_name_that_leads_to_this_machine_is_refused() {
    let (attempts, _told) = mpsc::channel(8);
    let policy = EgressPolicy::parse(["localhost:80"]).unwrap();
    let gateway = EgressGateway::new(policy, Vec::new().into(), &EgressLimits::default(), 0, attempts, None);
    let target = EgressTarget::new(HOST, 80).unwrap();
    assert_eq!(gateway.reach(&target).await.unwrap_err(), EgressRefusal::Private);
}

#[tokio::test]
async fn n2_a_tunnel_is_not_used_for_another_name() {
    let mut world = EgressWorld::open().await;
    let (mut client, _) = world.ask("CONNECT localhost:PORT HTTP/1.1\r\n\r\n").await;
    skip_head(&mut client).await;
    client.write_all(&nameless_hello()).await.unwrap();
    assert_eq!(client.read(&mut [0; 1]).await.unwrap_or(0), 0, "the tunnel is closed");
    assert_eq!(world.next().await, AttemptOutcome::Allowed);
    assert!(
        matches!(world.next().await, AttemptOutcome::Refused(refusal) if refusal.to_string().contains("no name"))
    );
}

#[tokio::test]
async fn n18_connections_and_bytes_are_bounded() {
    let world = EgressWorld::new(EgressLimits { connections: 1, bytes: 1000 }, "localhost:PORT").await;
    let (mut first, _) = world.ask("CONNECT localhost:PORT HTTP/1.1\r\n\r\n").await;
    skip_head(&mut first).await;
    let (_, second) = world.ask("CONNECT localhost:PORT HTTP/1.1\r\n\r\n").await;
    assert_eq!(second, "HTTP/1.1 429 Too Many Requests");
    first.write_all(&[b'x'; 2000]).await.unwrap();
    let mut received = Vec::new();
    let _ = first.read_to_end(&mut received).await;
    assert!(received.len() < 1000, "{} bytes came back", received.len());
    let (_, third) = world.ask("CONNECT localhost:PORT HTTP/1.1\r\n\r\n").await;
    assert_eq!(third, "HTTP/1.1 429 Too Many Requests");
}

#[tokio::test]
async fn a_plain_request_is_forwarded_without_the_headers_of_the_hop() {
    let world = EgressWorld::open().await;
    let head = "GET http://localhost:PORT/path?q=1 HTTP/1.1\r\nHost: localhost:PORT\r\nProxy-Authorization: secret\r\n\
                Connection: X-Hop\r\nX-Hop: 1\r\nX-Stays: 1\r\n\r\n";
    let mut client = world.connect();
    client.write_all(head.replace("PORT", &world.port.to_string()).as_bytes()).await.unwrap();
    assert_eq!(line(&mut client).await, "HTTP/1.1 200 OK");
    skip_head(&mut client).await;
    let mut seen = vec![0; 4096];
    let count = client.read(&mut seen).await.unwrap();
    let seen = String::from_utf8_lossy(&seen[..count]).to_lowercase();
    assert!(seen.starts_with("get /path?q=1 http/1.1\r\n"), "{seen}");
    assert!(seen.contains("x-stays: 1"), "{seen}");
    for gone in ["proxy-authorization", "x-hop", "connection"] {
        assert!(!seen.contains(gone), "{gone} in {seen}");
    }
}

/// Whatever is sent as HTTP, a job without rules reaches nothing, and what is recorded is bounded text.
#[test]
fn fuzz_egress_http() {
    // Refusals take turns, so time is the test's own.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "egress_http").run(|bytes| {
        runtime.block_on(async {
            // More than the shortest requests of the longest input.
            let (attempts, mut told) = mpsc::channel(8192);
            let limits = EgressLimits::default();
            let gateway =
                EgressGateway::new(EgressPolicy::default(), Vec::new().into(), &limits, 0, attempts, None);
            let (mut client, server) = tokio::io::duplex(256 * 1024);
            client.write_all(bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let (read, write) = tokio::io::split(server);
            let answered = async { tokio::io::copy(&mut client, &mut tokio::io::sink()).await };
            let (_, answered) = tokio::join!(gateway.serve(read, write), answered);
            answered.unwrap();
            while let Ok(attempt) = told.try_recv() {
                assert!(matches!(attempt.outcome, AttemptOutcome::Refused(_)), "{attempt:?}");
                assert!(attempt.target.len() <= 2 * MAX_TARGET_BYTES && !attempt.target.contains('\n'));
            }
        });
    });
}
