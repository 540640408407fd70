// Short messages at the edge of the page, and the question before something that can't be undone.

import { useEffect, useRef } from "preact/hooks";

import { messageOf } from "../api/client";
import { Icon } from "./icons";
import { Store, useStore } from "./store";

interface Notice {
  id: number;
  text: string;
  tone: "good" | "bad";
}

const notices = new Store<Notice[]>([]);
let next = 1;

export function notify(text: string, tone: Notice["tone"] = "good"): void {
  const id = next++;
  notices.value = [...notices.value.slice(-2), { id, text, tone }];
  setTimeout(() => dismiss(id), tone === "bad" ? 12_000 : 4000);
}

export const notifyFailure = (error: unknown): void => notify(messageOf(error), "bad");

function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {useStore(notices).map((notice) => (
        <div key={notice.id} class={`notice notice-${notice.tone}`}>
          <Icon name={notice.tone === "bad" ? "warn" : "check"} />
          <span>{notice.text}</span>
          <button type="button" class="quiet square" aria-label="Dismiss" onClick={() => dismiss(notice.id)}><Icon name="close" /></button>
        </div>
      ))}
    </div>
  );
}

interface Question {
  title: string;
  text: string;
  action: string;
  answer: (yes: boolean) => void;
}

const question = new Store<Question | null>(null);

/** Asks before something that can't be undone. */
export function confirmAction(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((answer) => { question.value = { title, text, action, answer }; });
}

export function QuestionDialog() {
  const asked = useStore(question);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { if (asked) dialog.current?.showModal(); }, [asked]);
  if (!asked) return null;
  const end = (yes: boolean) => {
    dialog.current?.close();
    question.value = null;
    asked.answer(yes);
  };
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="question" onCancel={() => end(false)}>
      <h2 id="question">{asked.title}</h2>
      <p>{asked.text}</p>
      <div class="actions">
        <button type="button" onClick={() => end(false)}>Keep it</button>
        <button type="button" class="danger" onClick={() => end(true)}>{asked.action}</button>
      </div>
    </dialog>
  );
}
