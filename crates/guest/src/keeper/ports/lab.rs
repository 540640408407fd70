//! JupyterLab: on loopback alone, with its own token, showing the kernels that tools and agents use beside those it starts.

use sandyard_protocol::StartProcess;

use crate::limits::LAB_IDLE;

/// JupyterLab's default port, where people expect it.
pub(super) const PORT: u16 = 8888;

/// Directory of the connection files of keeper's kernels.
const KERNELS: &str = "/run/user/1000/kernels";

/// The command that runs JupyterLab. It sees every request as one for `localhost:8888`, so it need not allow other origins or hosts.
/// It ends by itself when nobody uses it and none of its kernels and terminals is left: ending it from outside would end those too.
pub(super) fn start(script: &str, token: &str) -> StartProcess {
    let options = [
        "--no-browser".to_owned(),
        "--ServerApp.ip=127.0.0.1".to_owned(),
        format!("--ServerApp.port={}", PORT),
        "--ServerApp.port_retries=0".to_owned(),
        "--ServerApp.root_dir=/workspace".to_owned(),
        "--ServerApp.allow_external_kernels=True".to_owned(),
        format!("--ServerApp.external_connection_dir={KERNELS}"),
        format!("--ServerApp.shutdown_no_activity_timeout={}", LAB_IDLE.as_secs()),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate".to_owned(),
        "--LabApp.extension_manager=readonly".to_owned(),
    ];
    StartProcess {
        argv: ["python3".to_owned(), script.to_owned()].into_iter().chain(options).collect(),
        // Arguments are listed; the script takes the variable out of its environment.
        env: [("SANDYARD_LAB_TOKEN".to_owned(), token.to_owned())].into(),
        ..StartProcess::default()
    }
}

/// The `Authorization` header of a request.
pub(super) fn authorization(token: &str) -> String {
    format!("token {token}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w17_lab_listens_on_loopback_and_its_token_is_in_no_argument() {
        let start = start("/run/job/lab.py", "secret");
        assert!(start.argv.iter().any(|argument| argument == "--ServerApp.ip=127.0.0.1"));
        assert!(!start.argv.iter().any(|argument| argument.contains("secret")));
        assert_eq!(authorization("secret"), "token secret");
    }
}
