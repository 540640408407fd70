//! How clients reach a kernel: five ports on loopback and a key, in a file that the kernel, JupyterLab and people read.

use std::net::{Ipv4Addr, TcpListener};

use serde::{Deserialize, Serialize};

/// A connection file of Jupyter. `kernel_name` makes JupyterLab list the kernel among its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keeper::kernels) struct ConnectionFile {
    transport: String,
    ip: String,
    pub(super) shell_port: u16,
    pub(super) iopub_port: u16,
    pub(super) stdin_port: u16,
    pub(super) control_port: u16,
    pub(super) hb_port: u16,
    pub(super) key: String,
    signature_scheme: String,
    pub(super) kernel_name: String,
}

impl ConnectionFile {
    /// Draws ports that are free now and a new key. Another program may take a port before the kernel does; then the start is retried.
    pub(in crate::keeper::kernels) fn draw(kernel_name: &str) -> std::io::Result<Self> {
        let listeners: Vec<TcpListener> =
            (0..5).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
        let mut ports = [0; 5];
        for (port, listener) in ports.iter_mut().zip(&listeners) {
            *port = listener.local_addr()?.port();
        }
        let [shell_port, iopub_port, stdin_port, control_port, hb_port] = ports;
        Ok(Self {
            transport: "tcp".into(),
            ip: Ipv4Addr::LOCALHOST.to_string(),
            shell_port,
            iopub_port,
            stdin_port,
            control_port,
            hb_port,
            key: random_text()?,
            signature_scheme: "hmac-sha256".into(),
            kernel_name: kernel_name.into(),
        })
    }
}

/// 128 random bits as text.
pub(in crate::keeper::kernels) fn random_text() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_gets_ports_and_a_key_of_its_own() {
        let (one, two) = (ConnectionFile::draw("python3").unwrap(), ConnectionFile::draw("python3").unwrap());
        let mut ports = vec![one.shell_port, one.iopub_port, one.stdin_port, one.control_port, one.hb_port];
        ports.dedup();
        assert_eq!(ports.len(), 5);
        assert_eq!(one.key.len(), 32);
        assert_ne!(one.key, two.key);
        let json = serde_json::to_value(&one).unwrap();
        assert_eq!((&json["kernel_name"], &json["ip"]), (&"python3".into(), &"127.0.0.1".into()));
    }
}
