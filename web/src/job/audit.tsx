// The audit of a job: every record in order, and the signed head.

import { useEffect, useState } from "preact/hooks";

import { messageOf, request } from "../api/client";
import { clock, moment, plural } from "../ui/format";
import { Icon } from "../ui/icons";
import { plain } from "../ui/plain-text";
import { VirtualList } from "../ui/virtual-list";
import type { RoomProps } from "./job-page";

interface AuditLine {
  number: number;
  at: string;
  what: string;
  rest: string;
}

function lineOf(text: string, index: number): AuditLine | null {
  try {
    const record = JSON.parse(text) as Record<string, unknown>;
    if ("head" in record) return null;
    const { number, at, kind, actor, facts } = record;
    const words = typeof facts === "object" && facts !== null ? Object.entries(facts).filter(([, value]) => !isEmpty(value)) : [];
    const rest = [`by ${String(actor)}`, ...words.map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`)].join(" · ");
    return { number: Number(number ?? index + 1), at: String(at ?? ""), what: String(kind ?? ""), rest };
  } catch {
    return { number: index + 1, at: "", what: "", rest: text };
  }
}

const isEmpty = (value: unknown): boolean => value === null || value === "" || (Array.isArray(value) && value.length === 0);

export function Audit({ job }: RoomProps) {
  const [lines, setLines] = useState<AuditLine[] | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    request(`/jobs/${job.job_id}/audit`)
      .then((answer) => answer.text())
      .then((text) => setLines(text.split("\n").filter(Boolean).map(lineOf).filter((line) => line !== null)), (error: unknown) => setFailure(messageOf(error)));
  }, [job.job_id, job.audit?.records]);
  if (failure) return <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure}</p>;
  if (!lines) return <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /></div>;
  return (
    <div class="audit">
      <div class="changes-head"><strong>{plural(lines.length, "record")}</strong><span class="faint">hash-chained{job.audit ? <> · head <code class="id">{job.audit.head.slice(0, 16)}…</code> signed</> : null}</span></div>
      <VirtualList
        rows={lines} version={lines.length} keyOf={(line) => line.number} guessHeight={() => 33} label="Audit" role="list"
        render={(line) => (
          <div class="audit-line" role="listitem">
            <span class="raw-id">{line.number}</span>
            <span class="row-time" title={line.at && moment(line.at)}>{line.at && clock(line.at)}</span>
            <span class="raw-type">{plain(line.what)}</span>
            <bdi class="audit-text">{plain(line.rest)}</bdi>
          </div>
        )}
      />
    </div>
  );
}
