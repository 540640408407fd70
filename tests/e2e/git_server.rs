//! A real git server on loopback: git's own `http-backend` behind a few lines of HTTP, or plain files for the simplest kind.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// How a server serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Speaks git's protocol.
    Smart,
    /// Only has the repository's files.
    Dumb,
}

pub(crate) struct GitServer {
    pub(crate) port: u16,
    folder: TempDir,
}

impl GitServer {
    /// A server with the repository `project.git`: two commits on `main`, the first tagged `v1`, and a branch `topic`.
    pub(crate) fn start(manner: Manner) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        let script = "git init --quiet --initial-branch=main work && cd work && \
            mkdir src && echo one > src/a.txt && echo keep > keep.txt && printf '#!/bin/sh\\n' > run.sh && chmod 755 run.sh && \
            echo ignored.txt > .gitignore && echo tracked > ignored.txt && \
            printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = http://nowhere.example/x.git\\n' > .gitmodules && \
            git add --force --all && git commit --quiet --message=first && git tag v1 && \
            echo two > src/a.txt && git commit --quiet --all --message=second && \
            git checkout --quiet -b topic && echo topic > src/a.txt && git commit --quiet --all --message=topic && \
            git checkout --quiet main && git clone --quiet --bare . ../project.git && git -C ../project.git update-server-info";
        let made = command("bash", folder.path()).args(["-c", script]).status().unwrap();
        assert!(made.success() && work.exists());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let root = folder.path().to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let root = root.clone();
                // A client that goes away in the middle is no failure of the server.
                std::thread::spawn(move || drop(serve(stream, &root, manner)));
            }
        });
        Self { port, folder }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}/project.git", self.port)
    }

    /// The operator's leave to reach it.
    pub(crate) fn private(&self) -> String {
        format!("localhost:{0}=127.0.0.1,localhost:{0}=::1", self.port)
    }

    pub(crate) fn rule(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// What git says of the repository.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let folder = self.folder.path().join("project.git");
        let output = command("git", &folder).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// A program with settings that are the same on every machine.
pub(crate) fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "test").env(format!("GIT_{role}_EMAIL"), "test@example.org");
    }
    command
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut lines = BufReader::new(stream);
        let mut line = || {
            let mut text = String::new();
            lines.read_line(&mut text).ok()?;
            Some(text.trim_end().to_owned())
        };
        let first = line()?;
        let mut words = first.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = Vec::new();
        while let Some((name, value)) = line()?.split_once(':') {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut request =
            Self { method, path: path.to_owned(), query: query.to_owned(), headers, body: Vec::new() };
        request.body = vec![0; request.header("content-length").parse().unwrap_or(0)];
        lines.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

fn serve(mut stream: TcpStream, root: &Path, manner: Manner) -> Option<()> {
    let request = Request::read(&stream)?;
    let answer = match manner {
        Manner::Smart => backend(&request, root)?,
        Manner::Dumb => file(&root.join(request.path.trim_start_matches('/'))),
    };
    stream.write_all(&answer).ok()
}

fn file(path: &PathBuf) -> Vec<u8> {
    let (status, body) = match std::fs::read(path) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.into_bytes(), body].concat()
}

/// Asks git's own CGI program.
fn backend(request: &Request, root: &Path) -> Option<Vec<u8>> {
    let mut child = command("git", root)
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", &request.path)
        .env("QUERY_STRING", &request.query)
        .env("CONTENT_TYPE", request.header("content-type"))
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", request.header("content-encoding"))
        .env("GIT_PROTOCOL", request.header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take()?;
    let body = request.body.clone();
    let writing = std::thread::spawn(move || input.write_all(&body));
    let mut answer = Vec::new();
    child.stdout.take()?.read_to_end(&mut answer).ok()?;
    child.wait().ok()?;
    drop(writing.join());
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let start =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", answer.len() - end - 4);
    Some([start.as_bytes(), &answer].concat())
}
