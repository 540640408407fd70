//! The programs of `examples/`, as a reader would run them.

use tokio::process::Command;

use crate::origins::{finish_with_output, root};
use crate::yard::Yard;

async fn run(yard: &Yard, program: &str, file: &str) -> String {
    let mut command = Command::new(program);
    command.arg(root().join("examples").join(file)).current_dir(yard.data()).env("SANDYARD_URL", &yard.url);
    finish_with_output(command).await
}

#[tokio::test]
async fn a_first_job_with_curl_leaves_its_zip() {
    let yard = Yard::start().await;
    let told = run(&yard, "bash", "first-job.sh").await;
    assert!(told.contains("\"succeeded\"") && told.contains("hello\\n1\\n"), "{told}");
    let zip = std::fs::read(yard.data().join("result.zip")).unwrap();
    assert!(zip.starts_with(b"PK"), "{} bytes", zip.len());
}

/// Its last line is the memory of the running sandbox: live usage is not zero.
#[tokio::test]
async fn a_session_is_worked_in() {
    let yard = Yard::start().await;
    let told = run(&yard, "python3", "session.py").await;
    assert_eq!(told, "lines: 3\napple\nfig\npear\nmemory so far: True\n");
}

#[tokio::test]
async fn many_jobs_run_at_once() {
    let yard = Yard::start().await;
    let told = run(&yard, "python3", "many-jobs.py").await;
    let mut lines: Vec<_> = told.lines().collect();
    lines.sort_by_key(|line| line.split(' ').next().and_then(|number| number.parse::<u32>().ok()));
    assert_eq!((lines.len(), lines[3], lines[9]), (10, "3 9", "9 81"), "{told}");
}
