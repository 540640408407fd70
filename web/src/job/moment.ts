// The event that a replay shows now. The timeline marks it and keeps it in view; null while nothing is replayed.

import { Store } from "../ui/store";

export const moment = new Store<number | null>(null);
