//! The windows of the display: their positions and titles.

use sandyard_protocol::WindowInfo;
use sandyard_protocol::limits::WINDOWS;
use x11rb::protocol::res::ConnectionExt as _;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, Window};

use super::client::{DisplayClient, DisplayError};

/// Characters of a title that are returned.
const TITLE_CHARACTERS: usize = 200;
/// The same in the protocol's unit of four bytes, at most four bytes each.
const TITLE_UNITS: u32 = 200;

/// Position and size of a window on the screen.
pub(super) struct WindowPlace {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl DisplayClient {
    /// The windows that the window manager knows, lowest first.
    pub(super) fn windows(&self) -> Result<Vec<WindowInfo>, DisplayError> {
        let active = self.window_list("_NET_ACTIVE_WINDOW", 1)?.first().copied();
        let mut list = self.window_list("_NET_CLIENT_LIST_STACKING", WINDOWS)?;
        list.truncate(WINDOWS);
        // One that closes meanwhile is left out.
        Ok(list.into_iter().filter_map(|id| self.describe(id, active == Some(id)).ok()).collect())
    }

    fn describe(&self, id: Window, active: bool) -> Result<WindowInfo, DisplayError> {
        let WindowPlace { x, y, width, height } = self.place(id)?;
        Ok(WindowInfo { id, title: self.title(id)?, x, y, width, height, active })
    }

    pub(super) fn place(&self, window: Window) -> Result<WindowPlace, DisplayError> {
        let size = self.connection.get_geometry(window)?.reply()?;
        let at = self.connection.translate_coordinates(window, self.root, 0, 0)?.reply()?;
        Ok(WindowPlace {
            x: i32::from(at.dst_x),
            y: i32::from(at.dst_y),
            width: u32::from(size.width),
            height: u32::from(size.height),
        })
    }

    fn title(&self, window: Window) -> Result<String, DisplayError> {
        let name = self.atom("_NET_WM_NAME")?;
        let mut bytes = self.property(window, name, TITLE_UNITS)?;
        if bytes.is_empty() {
            bytes = self.property(window, AtomEnum::WM_NAME.into(), TITLE_UNITS)?;
        }
        Ok(String::from_utf8_lossy(&bytes).chars().take(TITLE_CHARACTERS).collect())
    }

    fn window_list(&self, name: &str, most: usize) -> Result<Vec<Window>, DisplayError> {
        let atom = self.atom(name)?;
        let bytes = self.property(self.root, atom, u32::try_from(most).unwrap_or(u32::MAX))?;
        let number = |unit: &[u8]| Some(u32::from_ne_bytes(unit.try_into().ok()?));
        Ok(bytes.chunks_exact(4).filter_map(number).collect())
    }

    fn atom(&self, name: &str) -> Result<u32, DisplayError> {
        Ok(self.connection.intern_atom(false, name.as_bytes())?.reply()?.atom)
    }

    fn property(&self, window: Window, name: u32, units: u32) -> Result<Vec<u8>, DisplayError> {
        let any: u32 = AtomEnum::ANY.into();
        Ok(self.connection.get_property(false, window, name, any, 0, units)?.reply()?.value)
    }

    /// Programs connected to the display, this one among them.
    pub(super) fn clients(&self) -> Result<u32, DisplayError> {
        let clients = self.connection.res_query_clients()?.reply()?.clients;
        // The server is its own first client, the one whose resources begin at 0.
        let programs = clients.iter().filter(|client| client.resource_base != 0).count();
        Ok(u32::try_from(programs).unwrap_or(u32::MAX))
    }
}
