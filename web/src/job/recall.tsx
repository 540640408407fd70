// A search through everything that the job has seen.

import { useState } from "preact/hooks";

import { getJson, messageOf } from "../api/client";
import { moment } from "../ui/format";
import { Icon } from "../ui/icons";
import { plain } from "../ui/plain-text";
import type { RoomProps } from "./job-page";

interface Passage {
  text: string;
  score: number;
  source?: { entry?: number; path?: string | null; at?: string | null };
}

export function Recall({ job }: RoomProps) {
  const [words, setWords] = useState("");
  const [found, setFound] = useState<Passage[] | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const ask = async () => {
    try {
      setFound((await getJson<{ passages: Passage[] }>(`/jobs/${job.job_id}/recall?q=${encodeURIComponent(words)}&k=20`)).passages);
      setFailure(null);
    } catch (error) {
      setFailure(messageOf(error));
    }
  };
  return (
    <div class="overview">
      <form class="port-line" onSubmit={(event) => { event.preventDefault(); void ask(); }}>
        <input type="search" class="grow" aria-label="What to recall" placeholder="What did the job see about …" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={!words.trim()}><Icon name="search" />Recall</button>
      </form>
      {failure && <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure}</p>}
      {found?.length === 0 && <p class="empty">Nothing like it.</p>}
      {found?.map((passage, index) => (
        <section key={index} class="card"><p class="faint">{[passage.source?.path, passage.source?.entry ? `entry ${passage.source.entry}` : "", passage.source?.at ? moment(passage.source.at) : ""].filter(Boolean).join(" · ")}</p><pre class="call-detail">{plain(passage.text)}</pre></section>
      ))}
    </div>
  );
}
