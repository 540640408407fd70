//! The command on an `https://` address whose certificate a private authority signed, and without trust in that authority.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio_rustls::TlsAcceptor;

use crate::command::sandyard;
use crate::yard::{PATIENCE, Yard};

/// A private authority and the certificate of `localhost` that it signed.
struct Authority {
    folder: tempfile::TempDir,
}

impl Authority {
    /// Makes keys and certificates; `None` without the program for that.
    async fn new() -> Option<Self> {
        let authority = Self { folder: tempfile::tempdir().unwrap() };
        let extensions = authority.path("extensions");
        std::fs::write(&extensions, "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
            .unwrap();
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let root = [&["req", "-x509", "-days", "2", "-subj", "/CN=A private authority"][..], &curve].concat();
        let server = [&["req", "-subj", "/CN=localhost"][..], &curve].concat();
        let signed = ["x509", "-req", "-days", "2", "-CAcreateserial"];
        let made = authority.openssl(&root, &[("-keyout", "root.key"), ("-out", "root.pem")]).await
            && authority.openssl(&server, &[("-keyout", "server.key"), ("-out", "server.csr")]).await
            && authority
                .openssl(
                    &signed,
                    &[
                        ("-in", "server.csr"),
                        ("-CA", "root.pem"),
                        ("-CAkey", "root.key"),
                        ("-extfile", "extensions"),
                        ("-out", "server.pem"),
                    ],
                )
                .await;
        if !made {
            eprintln!("skipped: needs openssl");
        }
        made.then_some(authority)
    }

    async fn openssl(&self, arguments: &[&str], files: &[(&str, &str)]) -> bool {
        let mut command = Command::new("openssl");
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        for (option, file) in files {
            command.arg(option).arg(self.path(file));
        }
        command.status().await.is_ok_and(|status| status.success())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Serves a yard over TLS, as a front does that ends it.
    async fn front(&self, yard: &Yard) -> String {
        let certificates = CertificateDer::pem_file_iter(self.path("server.pem")).unwrap();
        let certificates = certificates.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).unwrap();
        let config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind: SocketAddr = yard.url.trim_start_matches("http://").parse().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client without trust ends the handshake.
                    let Ok(mut client) = acceptor.accept(stream).await else { return };
                    let Ok(mut server) = TcpStream::connect(behind).await else { return };
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        format!("https://localhost:{port}")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn an_address_with_tls_works_with_the_trust_of_the_host_and_fails_without() {
    let Some(authority) = Authority::new().await else { return };
    let yard = Yard::start().await;
    let url = authority.front(&yard).await;
    let root = authority.path("root.pem");
    let trust = [("SSL_CERT_FILE", text(&root))];
    let ran = sandyard(&url, &["run", "-k", "shell", "echo over tls"], &trust).await.expect(0);
    assert!(ran.out.contains("over tls"), "{ran:?}");
    let id = sandyard(&url, &["run", "-k", "session", "-d"], &trust).await.expect(0).out.trim().to_owned();
    sandyard(&url, &["shell", &id, "exit 6"], &trust).await.expect(6);
    // A terminal is a WebSocket, whose connection the command makes itself.
    let line = format!("{} shell -t {id} 'tty && exit 7'", env!("CARGO_BIN_EXE_sandyard"));
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env("SANDYARD_URL", &url);
    terminal.envs(trust).stdin(Stdio::null()).kill_on_drop(true);
    let told = tokio::time::timeout(PATIENCE, terminal.output()).await.expect("it does not end").unwrap();
    assert!(String::from_utf8_lossy(&told.stdout).contains("/dev/pts/"), "{told:?}");
    assert_eq!(told.status.code(), Some(7), "{told:?}");

    let strange = sandyard(&url, &["ps"], &[("SSL_CERT_FILE", "/dev/null")]).await.expect(3);
    assert!(strange.err.contains("certificate"), "{strange:?}");
    let plain = sandyard(&url.replace("https", "http"), &["ps"], &trust).await;
    assert_ne!(plain.code, 0, "{plain:?}");
}
