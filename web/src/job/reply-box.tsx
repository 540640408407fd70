// The answer to a question of a task, or a word to one that runs.

import { useEffect, useRef, useState } from "preact/hooks";

import { reply } from "../api/jobs";
import type { JobView } from "../api/types";
import { isTerminal } from "../api/types";
import { Icon } from "../ui/icons";
import { useShortcuts } from "../ui/keys";
import { notifyFailure } from "../ui/notices";
import { Prose } from "../ui/prose";

export function ReplyBox({ job, onSent }: { job: JobView; onSent: () => void }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const asks = job.state === "waiting";
  useShortcuts([{ keys: "i", does: "Write to the agent", run: () => field.current?.focus() }]);
  useEffect(() => { if (asks) field.current?.focus({ preventScroll: true }); }, [asks]);
  if (job.kind !== "task" || isTerminal(job.state)) return null;
  const send = async () => {
    if (!text.trim()) return;
    setBusy(true);
    try {
      await reply(job.job_id, text);
      setText("");
      onSent();
    } catch (error) {
      notifyFailure(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class={`reply${asks ? " asks" : ""}`} onSubmit={(event) => { event.preventDefault(); void send(); }}>
      {asks && job.question && <div class="question" role="status"><strong>The agent asks</strong><Prose text={job.question} /></div>}
      <div class="reply-line">
        <textarea
          ref={field} rows={1} value={text} aria-label={asks ? "Your answer" : "Message to the agent"} placeholder={asks ? "Your answer" : "Tell the agent something"}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); void send(); } }}
        />
        <button type="submit" class="primary" disabled={busy || !text.trim()}><Icon name="send" />{asks ? "Answer" : "Send"}</button>
      </div>
    </form>
  );
}
