// Short names for the generated types of the API.

import type { components } from "./schema";

type Schemas = components["schemas"];

export type JobView = Schemas["JobView"];
export type JobListView = Schemas["JobListView"];
export type JobKind = Schemas["JobKind"];
export type JobState = Schemas["JobState"];
export type ScheduleBody = Schemas["ScheduleBody"];
export type ScheduleView = Schemas["ScheduleView"];
export type TicketView = Schemas["TicketView"];
export type ErrorBody = Schemas["ErrorBody"];
export type AvailabilityView = Schemas["AvailabilityView"];
export type DriverView = Schemas["DriverView"];
export type VersionView = Schemas["VersionView"];
export type SettingsView = Schemas["SettingsView"];
export type ListingView = Schemas["ListingView"];
export type FileEntryView = Schemas["FileEntryView"];
export type FileBody = Schemas["FileBody"];
export type ShellView = Schemas["ShellView"];
export type FramesView = Schemas["FramesView"];
export type UsageSeriesView = Schemas["UsageSeriesView"];
export type RecallView = Schemas["RecallView"];
export type PassageView = Schemas["PassageView"];
export type PassageSourceView = Schemas["PassageSourceView"];
export type EventBody = Schemas["EventBody"];

/** An event of a job with its number, which is the `id` field of the stream. */
export type JobEvent = Schemas["JobEvent"] & { id: number };

export const TERMINAL: readonly JobState[] = ["succeeded", "failed", "cancelled", "timed_out"];
export const isTerminal = (state: JobState): boolean => TERMINAL.includes(state);
