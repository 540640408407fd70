// The part of noVNC that is used; the package has no types of its own.

declare module "@novnc/novnc" {
  export default class RFB extends EventTarget {
    constructor(target: HTMLElement, channel: WebSocket, options?: { shared?: boolean });
    viewOnly: boolean;
    scaleViewport: boolean;
    background: string;
    showDotCursor: boolean;
    focus(): void;
    disconnect(): void;
    clipboardPasteFrom(text: string): void;
  }
}
