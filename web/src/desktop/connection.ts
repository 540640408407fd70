// The pixels of a desktop, by noVNC: shared by the page of a desktop and the console.

import RFB from "@novnc/novnc";

/** Text on the clipboard that is taken from a sandbox. */
export const CUT_TEXT_BYTES = 1024 * 1024;
/** The server's close code while somebody else has control. */
export const CONTROLLED = 4409;

interface Internals {
  _sock: { rQwait(what: string, count: number, goback: number): boolean; rQpeekBytes(count: number): Uint8Array };
  _fail(message: string): boolean;
}

/** The clipboard's length is the sandbox's claim: it is looked at before anything is kept for it. */
export class BoundedRFB extends RFB {
  _handleServerCutText(): boolean {
    const self = this as unknown as Internals;
    if (self._sock.rQwait("ServerCutText header", 7, 1)) return false;
    const head = self._sock.rQpeekBytes(7);
    const length = Math.abs((((head[3] ?? 0) << 24) | ((head[4] ?? 0) << 16) | ((head[5] ?? 0) << 8) | (head[6] ?? 0)) | 0);
    if (length > CUT_TEXT_BYTES) return self._fail("The clipboard of the sandbox is too large");
    return (RFB.prototype as unknown as { _handleServerCutText(): boolean })._handleServerCutText.call(this);
  }
}

export interface Viewer {
  rfb: BoundedRFB;
  close(): void;
}

/** Shows the desktop behind a socket's address in an element. */
export function view(element: HTMLElement, address: URL, controls: boolean, onClose: (code: number, reason: string) => void): Viewer {
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  socket.addEventListener("close", (event) => onClose(event.code, event.reason));
  element.replaceChildren();
  const rfb = new BoundedRFB(element, socket, { shared: true });
  rfb.viewOnly = !controls;
  rfb.scaleViewport = true;
  rfb.background = "transparent";
  rfb.showDotCursor = true;
  return { rfb, close: () => rfb.disconnect() };
}
