// The socket of a terminal. The shell outlives it for a while: a connection that is lost is made again where its output ended.

import type { Terminal } from "@xterm/xterm";

import { ApiFailure, messageOf } from "../api/client";
import { ticket } from "../api/jobs";

/** Longest frame that is sent; the server takes four times as much. */
const FRAME_BYTES = 64 * 1024;
/** Output that may wait to be drawn. A flood beyond it is not drawn. */
const PENDING_BYTES = 4 * 1024 * 1024;
const RETRY_MS = 1000;
/** The server keeps a shell without a client for 90 s. */
const RETRIES = 80;

interface ControlFrame {
  process?: string;
  offset?: number;
  lost?: number;
  exit?: { code?: number };
}

export class ShellLink {
  #socket: WebSocket | null = null;
  #process: string | null = null;
  /** Bytes of output before the next one. */
  #offset = 0;
  #tries = 0;
  #over = false;
  #pending = 0;

  constructor(
    private readonly job: string,
    private readonly terminal: Terminal,
    private readonly ended: (words: string) => void,
  ) {
    const encoder = new TextEncoder();
    terminal.onData((text) => this.#send(encoder.encode(text)));
    terminal.onBinary((text) => this.#send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    terminal.onResize(({ cols, rows }) => { if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ resize: { columns: cols, rows } })); });
  }

  connect(): void {
    this.#open().catch((error: unknown) => {
      const refused = error instanceof ApiFailure && error.status >= 400 && error.status < 500;
      if (refused) this.#end(messageOf(error));
      else this.#retry(messageOf(error));
    });
  }

  close(): void {
    this.#over = true;
    this.#socket?.close();
  }

  async #open(): Promise<void> {
    const address = new URL(await ticket(this.job, "pty"), location.href);
    if (this.#over) return;
    if (this.#process) {
      address.pathname = `/jobs/${this.job}/processes/${this.#process}`;
      address.searchParams.set("offset", String(this.#offset));
    }
    address.protocol = address.protocol.replace("http", "ws");
    address.searchParams.set("columns", String(this.terminal.cols));
    address.searchParams.set("rows", String(this.terminal.rows));
    const socket = new WebSocket(address);
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", (event: MessageEvent<ArrayBuffer | string>) => {
      this.#tries = 0;
      if (typeof event.data === "string") this.#control(event.data);
      else this.#output(new Uint8Array(event.data));
    });
    socket.addEventListener("close", (event) => this.#retry(event.reason || "The connection was closed."));
  }

  #control(text: string): void {
    const frame = JSON.parse(text) as ControlFrame;
    if (frame.process) this.#process = frame.process;
    if (typeof frame.offset === "number") this.#offset = frame.offset;
    this.#offset += frame.lost ?? 0;
    if (frame.exit) this.#end(`The shell ended with ${frame.exit.code ?? 0}.`);
  }

  #output(bytes: Uint8Array): void {
    this.#offset += bytes.length;
    if (this.#pending > PENDING_BYTES) return;
    this.#pending += bytes.length;
    this.terminal.write(bytes, () => { this.#pending -= bytes.length; });
  }

  #send(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    for (let at = 0; at < bytes.length; at += FRAME_BYTES) this.#socket.send(bytes.subarray(at, at + FRAME_BYTES));
  }

  #retry(reason: string): void {
    if (this.#over) return;
    this.#tries += 1;
    if (!this.#process || this.#tries > RETRIES) return this.#end(reason);
    setTimeout(() => { if (!this.#over) this.connect(); }, RETRY_MS);
  }

  #end(words: string): void {
    if (this.#over) return;
    this.#over = true;
    this.ended(words);
  }
}
