// The time, once a second, for what counts up.

import { useEffect, useState } from "preact/hooks";

/** The present in milliseconds; renews each second while `ticks`, else every half minute. */
export function useNow(ticks: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) setNow(Date.now()); }, ticks ? 1000 : 30_000);
    return () => clearInterval(timer);
  }, [ticks]);
  return now;
}
