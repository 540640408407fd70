//! The commands of the desktop's programs.

use sandyard_protocol::StartProcess;

use super::display::{DISPLAY_NUMBER, DesktopPlaces, MANAGED_NUMBER};

/// The socket of the X server's VNC.
pub(super) const SOCKET: &str = "rfb";
/// The variable of a job that sets the screen's size.
pub(super) const GEOMETRY_VARIABLE: &str = "SANDYARD_DESKTOP_GEOMETRY";
pub(super) const DEFAULT_GEOMETRY: (u32, u32) = (1280, 800);
/// Sides of a screen in pixels. A screenshot of the largest screen stays within `SCREENSHOT_BYTES`.
const SIDE_RANGE: std::ops::RangeInclusive<u32> = 320..=4096;

/// Removes the lock of a killed server, then becomes the server. It listens on the socket at its standard input, and prints the
/// number of the display on standard output when it is ready.
const SERVER: &str =
    r#"rm -f "/tmp/.X$0-lock"; export LISTEN_FDS=1 LISTEN_PID=$$; exec Xvnc ":$0" "$@" 3<&0 </dev/null"#;
/// Prints a line on standard output when it is ready, and nothing else there.
const WINDOW_MANAGER: &str = r#"xsetroot -cursor_name left_ptr -solid '#3b4252'; exec 3>&1 1>&2; exec openbox --startup "sh -c 'echo ready >/proc/$$/fd/3'""#;
const BUS: &str = r#"bus="$XDG_RUNTIME_DIR/bus"; rm -f "$bus"; exec dbus-daemon --session --nofork --nopidfile --nosyslog --address="unix:path=$bus""#;

/// The command of the session bus.
pub(super) fn bus() -> StartProcess {
    shell(BUS)
}

/// The command of the window manager. It connects before the display has its name.
pub(super) fn window_manager() -> StartProcess {
    let mut command = shell(WINDOW_MANAGER);
    command.env.insert("DISPLAY".into(), format!(":{MANAGED_NUMBER}"));
    command
}

/// The command of the X server.
pub(super) fn server(places: &DesktopPlaces, (width, height): (u32, u32)) -> StartProcess {
    let number = DISPLAY_NUMBER.to_string();
    let geometry = format!("{width}x{height}");
    let socket = places.socket_directory.join(SOCKET).to_string_lossy().into_owned();
    // On no network, TCP or otherwise: only on the socket, which keeper can open by its mode, and there without a password.
    // The screen's size is the job's, and a client never sends another away.
    let options = [
        "-geometry",
        &geometry,
        "-depth",
        "24",
        "-desktop",
        "Sandyard",
        "-rfbport",
        "-1",
        "-rfbunixpath",
        &socket,
        "-rfbunixmode",
        "0666",
        "-SecurityTypes",
        "None",
        "-nolisten",
        "tcp",
        "-nolisten",
        "local",
        "-displayfd",
        "1",
        "-AlwaysShared=1",
        "-AcceptSetDesktopSize=0",
        "-noreset",
    ];
    let mut command = shell(SERVER);
    command.argv.push(number);
    command.argv.extend(options.map(str::to_owned));
    command
}

fn shell(script: &str) -> StartProcess {
    StartProcess { argv: vec!["sh".into(), "-c".into(), script.into()], ..StartProcess::default() }
}

/// Parses `WIDTHxHEIGHT` within bounds.
pub(super) fn parse_geometry(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    let side = |text: &str| text.parse().ok().filter(|side| SIDE_RANGE.contains(side));
    Some((side(width)?, side(height)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_two_sides_within_bounds() {
        assert_eq!(parse_geometry("1920x1080"), Some((1920, 1080)));
        for text in ["", "x", "1920", "1920x", "100x100", "9999x9999", "-1x800", "1280x800x24"] {
            assert_eq!(parse_geometry(text), None, "{text}");
        }
    }
}
