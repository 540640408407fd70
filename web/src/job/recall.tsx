// A search through everything that the job has seen.

import { useState } from "preact/hooks";

import { encodePath, getJson, messageOf } from "../api/client";
import { moment } from "../ui/format";
import { Icon } from "../ui/icons";
import { plain } from "../ui/plain-text";
import { jobAddress } from "../ui/router";
import type { RoomProps } from "./job-page";

interface Passage {
  text: string;
  score: number;
  source?: { entry?: number | null; path?: string | null; lines?: [number, number] | null; at?: string | null };
}

/** Where a passage stands: a file with its lines, or an entry of the journal. */
function Source({ job, source }: { job: string; source: NonNullable<Passage["source"]> }) {
  const { entry, path, lines, at } = source;
  return (
    <p class="recall-source">
      {path && <a href={jobAddress(job, `files/${encodePath(path)}`)}><bdi class="mono">{plain(path)}</bdi></a>}
      {path && lines && <span class="faint">lines {lines[0]} to {lines[1]}</span>}
      {entry && <span class="faint">entry {entry} of the journal</span>}
      {at && <time class="faint" dateTime={at}>{moment(at)}</time>}
    </p>
  );
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
        <section key={index} class="card">{passage.source && <Source job={job.job_id} source={passage.source} />}<pre class="call-detail">{plain(passage.text)}</pre></section>
      ))}
    </div>
  );
}
