// A part of the console that is loaded when it is first shown.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

import { messageOf } from "../api/client";
import { Icon } from "./icons";

interface LazyProps<Props extends object> {
  load: () => Promise<ComponentType<Props>>;
  props: Props;
}

export function Lazy<Props extends object>({ load, props }: LazyProps<Props>) {
  const [Part, setPart] = useState<ComponentType<Props> | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    load().then((part) => setPart(() => part), (error: unknown) => setFailure(messageOf(error)));
  }, []);
  if (failure) return <p class="banner banner-bad" role="alert"><Icon name="warn" />This part could not be loaded: {failure}. Reload the page.</p>;
  return Part ? <Part {...props} /> : <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /></div>;
}
