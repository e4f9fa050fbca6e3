// One transform: its numbers, timeline, charts, tables and plan.

import { Chart } from "./chart.js";
import { h, say, table } from "./dom.js";
import { bytes, count, duration, many, moment, second, short, time, windowWords } from "./format.js";
import { planTree } from "./plan.js";
import { Timeline } from "./timeline.js";

const MOST_POINTS = 1800;
const rate = (name) => (point) => point.seconds === null ? null : point[name] / point.seconds;
const STATUS = {
  waiting: "has not begun", running: "running", ended: "the process has ended", elsewhere: "runs, or ran, on another machine",
};

function charts() {
  return [
    new Chart({ title: "Rate", unit: "rows per second", format: short, series: [
      { name: "rows read", value: rate("rows_in") }, { name: "result rows", value: rate("rows_out") }] }),
    new Chart({ title: "Watermark lag", unit: "behind the clock", format: duration, series: [
      { name: "lag", value: (point) => point.lag_us === null ? null : point.lag_us / 1e6 }] }),
    new Chart({ title: "Lateness and side output", unit: "rows per second", format: short, series: [
      { name: "late", value: rate("late") },
      { name: "error", value: rate("error") },
      { name: "duplicate", value: rate("duplicate") },
      { name: "evicted", value: rate("evicted") }] }),
    new Chart({ title: "Steps", unit: "time until the commit", format: duration, least: 0.1, series: [
      { name: "time", value: (point) => point.duration_ms === null ? null : point.duration_ms / 1000 }] }),
    new Chart({ title: "Windows", unit: "number", format: short, series: [
      { name: "open", value: (point) => point.open_windows },
      { name: "closed by the step", value: (point) => point.closed_windows }] }),
  ];
}

export class Transform {
  constructor(id) {
    this.id = id;
    this.lastEpoch = -1;
    this.points = [];
    this.span = 300;
    this.charts = charts();
    this.timeline = new Timeline();
    this.drawn = {};
    this.title = h("h2", {}, id);
    this.status = h("span", { class: "badge" });
    this.about = h("p", { class: "about" });
    this.problems = h("div", { role: "alert" });
    this.numbers = h("dl", { class: "numbers-row" });
    this.values = new Map();
    this.since = h("p", { class: "since" });
    this.sections = {};
    for (const name of ["open", "side", "shards", "results", "plan", "about"]) this.sections[name] = h("div", {});
    const section = (name, title, wide) => h("section", { class: `card${wide ? " wide" : ""}`, "aria-label": title }, h("h3", {}, title), this.sections[name]);
    this.element = h("div", { class: "transform" },
      h("div", { class: "heading" }, this.title, this.status), this.about, this.problems, this.numbers,
      h("div", { class: "grid-of-cards" },
        this.timeline.element, ...this.charts.map((each) => each.element),
        section("open", "Open windows"), section("shards", "Shards"), section("results", "Latest results", true),
        section("side", "Side output", true), section("plan", "Plan", true), section("about", "About this checkpoint", true)),
      this.since);
  }

  /** Show newer facts; false if they do not follow those before, so all must be asked for again. */
  update(facts) {
    this.facts = facts;
    if (facts.epoch !== undefined && facts.epoch < this.lastEpoch) {
      this.points = [];
      this.lastEpoch = -1;
      return false;
    }
    this.points.push(...(facts.points ?? []));
    if (this.points.length > MOST_POINTS) this.points = this.points.slice(-MOST_POINTS);
    if (this.points.length > 0) this.lastEpoch = this.points.at(-1).epoch;
    this.draw();
    return true;
  }

  /** What changes as time passes. */
  passing(now) {
    if (this.facts?.committed_s === undefined || this.facts.committed_s === null) return;
    this.number("last step", `${duration(Math.max(0, Math.round(now - this.facts.committed_s)))} ago`);
  }

  draw() {
    const facts = this.facts;
    if (facts === undefined) return;
    say(this.status, facts.problem ? "problem" : STATUS[facts.status]);
    this.status.className = `badge ${facts.problem ? "broken" : facts.status}`;
    this.once("problems", [facts.problem, facts.state_problem], () =>
      this.problems.replaceChildren(...[facts.problem, facts.state_problem].filter(Boolean).map((text) => h("p", { class: "problem" }, text))));
    if (facts.epoch === undefined) {
      say(this.about, "No step has been committed yet. The page shows the transform as soon as one is.");
      return;
    }
    say(this.about, [facts.window ? windowWords(facts.window) : null, facts.keys.length ? `by ${facts.keys.join(", ")}` : null, facts.closes ? `closes ${facts.closes}` : null].filter(Boolean).join(" · "));
    this.headline(facts);
    const newest = this.points.at(-1)?.clock_us ?? facts.clock_us ?? 0;
    const oldest = this.points[0]?.clock_us ?? newest;
    const from = this.span === 0 ? oldest : Math.max(oldest, newest - this.span * 1e6);
    const shown = this.points.filter((each) => each.clock_us !== null && each.clock_us >= from);
    for (const chart of this.charts) chart.update(shown, from, newest);
    this.timeline.update(facts);
    this.once("open", facts.windows, () => this.sections.open.replaceChildren(...openWindows(facts)));
    this.once("side", [facts.side_output, facts.dropped, facts.totals, facts.side_sample], () => this.sections.side.replaceChildren(...sideOutput(facts)));
    this.once("results", [facts.results, facts.emitted], () => this.sections.results.replaceChildren(...results(facts)));
    this.sections.shards.parentElement.hidden = facts.shards.by === null;
    this.once("shards", facts.shards, () => this.sections.shards.replaceChildren(...shards(facts)));
    this.once("plan", [facts.plan, facts.statement], () => this.sections.plan.replaceChildren(
      facts.statement ? h("pre", { tabindex: 0, "aria-label": "Statement" }, h("code", {}, facts.statement.trim())) : null ?? "", planTree(facts.plan)));
    this.once("about", [facts.epoch, facts.writer, facts.tables], () => this.sections.about.replaceChildren(about(facts)));
    const since = oldest ? `Charts since ${moment(oldest)} UTC: a checkpoint keeps its newest eleven steps, and the monitor remembers what it has seen since it started.` : "";
    say(this.since, since);
  }

  headline(facts) {
    const last = this.points.at(-1);
    this.number("rows read", `${short(facts.rate)} /s`, `${count(facts.totals.rows_in)} so far`);
    this.number("watermark", facts.watermark_us === null ? "none yet" : second(facts.watermark_us), facts.watermark_us === null ? "" : `${moment(facts.watermark_us).slice(0, 10)} UTC`);
    this.number("watermark lag", facts.lag_us === null ? "–" : duration(facts.lag_us / 1e6), "behind the clock");
    const late = facts.totals.rows_in ? facts.totals.late / facts.totals.rows_in : 0;
    this.number("late rows", count(facts.totals.late), `${(late * 100).toFixed(late > 0 && late < 0.01 ? 2 : 1)} % of rows read`);
    this.number("open windows", count(facts.windows.total), `${count(facts.emitted.closed_windows)} closed so far`);
    this.number("results", count(facts.emitted.rows_out), "rows so far");
    this.number("state", bytes(facts.tables.bytes), `${many(facts.tables.rows, "row")}, ${many(facts.tables.segments, "segment")}`);
    this.number("last step", null, last?.duration_ms ? `took ${duration(last.duration_ms / 1000)}` : "");
  }

  number(name, value, note) {
    let cell = this.values.get(name);
    if (cell === undefined) {
      cell = { value: h("dd", {}, "–"), note: h("dd", { class: "note" }) };
      this.values.set(name, cell);
      this.numbers.append(h("div", { title: this.facts.help?.[name] }, h("dt", {}, name), cell.value, cell.note));
    }
    if (value !== null && value !== undefined) say(cell.value, value);
    if (note !== undefined) say(cell.note, note);
  }

  /** Draw a part again only if its facts differ, so that focus and open details stay. */
  once(name, facts, draw) {
    const text = JSON.stringify(facts) ?? "";
    if (this.drawn[name] === text) return;
    this.drawn[name] = text;
    draw();
  }
}

// What a record of side output says about its row; the other columns are the same in all of them.
const RECORD = ["kind", "reason", "error_detail", "original_event", "late_by_ms", "event_time", "window", "group_key", "shard"];

function openWindows(facts) {
  const open = facts.windows.timeline.filter((each) => !each.closed);
  const rows = open.map((each) => [time(each.start_us, facts.watermark_us ?? each.start_us), time(each.end_us, facts.watermark_us ?? each.end_us), count(each.groups), each.rows]);
  return [table("Open windows, next to close first", ["start (UTC)", "end (UTC)", "groups", "state rows"], rows, facts.windows.epoch < 0 ? "The windows have not been read yet." : facts.windows.note ?? "No window is open."),
    facts.windows.note && rows.length > 0 ? h("p", { class: "note" }, `Shown are ${facts.windows.note}.`) : ""];
}

function sideOutput(facts) {
  const goes = (each) => each.sink === "metrics_only" || each.sink === null ? "counted only" : each.sink;
  const reasons = (each) => Object.entries(each.reasons).map(([reason, number]) => `${reason.replaceAll("_", " ")} ${count(number)}`).join(", ") || (each.records ? "not known: only counted" : "");
  const rows = facts.side_output.map((each) => [each.kind, each.records, reasons(each), goes(each)]);
  const dropped = Object.entries(facts.dropped).filter(([, number]) => number > 0);
  return [table("Records of side output so far", ["kind", "records", "reasons", "goes to"], rows),
    facts.side_sample.length === 0 ? "" : samples("A sample of the newest records", facts.side_sample, RECORD),
    dropped.length === 0 ? "" : h("p", { class: "problem" }, `Not written: ${dropped.map(([cause, number]) => `${count(number)} by ${cause}`).join(", ")}`)];
}

function results(facts) {
  if (facts.results.length > 0) return [samples("A sample of the newest results", facts.results)];
  return [h("p", { class: "empty" }, facts.emitted.rows_out === 0 ? "No window has given a result yet." : "The checkpoint holds no sample of results: no step that it keeps has given any, or monitor_samples = 0.")];
}

/** Rows as a table, with some of their columns or all; what all rows lack is left out. */
function samples(caption, rows, columns = [...new Set(rows.flatMap((each) => Object.keys(each.row ?? {})))]) {
  const names = columns.filter((name) => rows.some((each) => each.row?.[name] !== null && each.row?.[name] !== undefined));
  const cut = rows.some((each) => each.row === undefined);
  const cells = rows.map((each) => [each.epoch, ...names.map((name) => each.row === undefined ? "" : each.row[name] ?? "NULL"), ...(cut ? [each.text ?? ""] : [])]);
  return table(caption, ["epoch", ...names, ...(cut ? ["row, cut short"] : [])], cells);
}

const SHARD_COUNTS = { late: "late", partial: "partially late", error: "errors", duplicate: "duplicates", evicted: "evicted" };

function shards(facts) {
  const { by, total, behind } = facts.shards;
  const counted = Object.keys(SHARD_COUNTS).filter((name) => behind.some((each) => each.counts[name]));
  const rows = behind.map((each) => [each.name ?? "NULL", moment(each.event_time_us), moment(each.clock_us), count(each.rows), ...counted.map((name) => count(each.counts[name] ?? 0))]);
  return [table(`${many(total, "shard")} by ${by}; furthest behind first`, ["shard", "greatest event time (UTC)", "last row at (UTC)", "rows", ...counted.map((name) => SHARD_COUNTS[name])], rows),
    total > rows.length ? h("p", { class: "note" }, `Shown are the ${rows.length} furthest behind.`) : ""];
}

function about(facts) {
  const pairs = { checkpoint: facts.checkpoint, epoch: `${facts.epoch} (batch ${facts.batch_id} of Spark's)`, clock: moment(facts.clock_us), "closed up to": moment(facts.bound_us), plan: facts.plan_id, writer: facts.writer ?? "unknown" };
  return h("dl", { class: "pairs" }, Object.entries(pairs).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
