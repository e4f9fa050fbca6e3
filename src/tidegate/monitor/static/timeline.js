// The timeline: windows as bars over event time, with the watermark that closes them.

import { h, s } from "./dom.js";
import { count, duration, many, second, tick, time } from "./format.js";
import { timeTicks } from "./chart.js";

const GAP = 4, TOP = 34, BOTTOM = 26, LANES = 14, SIDE = 14;
// Bars are as high as there is room for: few of them are high.
const laneHeight = (lanes) => lanes <= 3 ? 34 : lanes <= 8 ? 24 : 18;

/** The windows to draw and the range of event time that shows them. */
function view(windows, watermark) {
  const open = windows.filter((each) => !each.closed);
  const closed = windows.filter((each) => each.closed);
  const shown = [...closed.slice(-24), ...open.slice(0, 40)];
  if (shown.length === 0) return null;
  const lengths = shown.map((each) => each.end_us - each.start_us).sort((a, b) => a - b);
  const length = Math.max(1e6, lengths[lengths.length >> 1]);
  const around = watermark ?? shown[0].end_us;
  const from = Math.max(Math.min(...shown.map((each) => each.start_us), around), around - 7 * length);
  const to = Math.min(Math.max(...shown.map((each) => each.end_us), around), around + 9 * length);
  const inside = shown.filter((each) => each.end_us >= from && each.start_us <= to);
  const margin = (to - from || 1e6) * 0.02;
  return { from: from - margin, to: to + margin, windows: inside, left: windows.length - inside.length };
}

/** Put each window in the first lane where it touches none; those without a lane are left out. */
function lanes(windows) {
  const ends = [], placed = [];
  for (const window of [...windows].sort((a, b) => a.start_us - b.start_us || a.end_us - b.end_us)) {
    let lane = ends.findIndex((end) => end <= window.start_us);
    if (lane < 0) lane = ends.length;
    if (lane >= LANES) continue;
    ends[lane] = window.end_us;
    placed.push({ window, lane });
  }
  return { placed, lanes: Math.max(1, ends.length) };
}

export class Timeline {
  constructor() {
    this.svg = s("svg", { class: "timeline", role: "img", tabindex: 0 });
    this.text = h("p", { class: "readout" });
    this.element = h("figure", { class: "card wide" },
      h("figcaption", {}, h("h3", {}, "Windows against the watermark"), h("span", { class: "unit" }, "event time, UTC"),
        h("ul", { class: "keys" }, ...["open", "past its end", "closed"].map((name, place) => h("li", {},
          s("svg", { class: "key", width: 18, height: 12, "aria-hidden": "true" }, s("rect", { width: 18, height: 12, rx: 3, class: `bar ${["open", "ended", "closed"][place]}` })), name)))),
      this.svg, this.text);
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  update(facts) {
    this.facts = facts;
    this.draw();
  }

  draw() {
    if (this.facts === undefined) return;
    const { watermark_us: watermark, bound_us: bound, windows: found } = this.facts;
    const width = Math.max(240, this.svg.clientWidth);
    const shown = view(found.timeline, watermark);
    if (shown === null) {
      this.svg.setAttribute("height", 60);
      const why = found.epoch < 0 ? "The windows have not been read yet." : found.note ?? "No window is open.";
      this.svg.replaceChildren(s("text", { x: width / 2, y: 34, "text-anchor": "middle", class: "tick" }, why));
      this.svg.setAttribute("aria-label", why);
      this.text.textContent = "";
      return;
    }
    const { placed, lanes: used } = lanes(shown.windows);
    const lane = laneHeight(used), height = TOP + used * (lane + GAP) + BOTTOM;
    const x = (us) => SIDE + (us - shown.from) / (shown.to - shown.from) * (width - 2 * SIDE);
    const inside = (us) => Math.max(0, Math.min(width, x(us)));
    const parts = [];
    const floor = height - BOTTOM;
    if (watermark !== null) parts.push(s("rect", { x: 0, y: TOP - 6, width: inside(watermark), height: floor - TOP + 6, class: "water" }));
    const { ticks, step } = timeTicks(shown.from, shown.to, Math.max(2, Math.floor(width / 110)));
    for (const at of ticks) {
      parts.push(s("line", { x1: x(at), x2: x(at), y1: TOP - 6, y2: floor, class: "grid" }),
        s("text", { x: x(at), y: height - 8, "text-anchor": "middle", class: "tick" }, tick(at, step)));
    }
    for (const each of placed) parts.push(this.bar(each.window, TOP + each.lane * (lane + GAP), lane, inside));
    if (bound !== null && bound !== watermark && x(bound) > 0) {
      parts.push(s("line", { x1: x(bound), x2: x(bound), y1: TOP - 6, y2: floor, class: "bound" }));
    }
    if (watermark !== null) {
      const at = inside(watermark), right = at > width * 0.7;
      parts.push(s("line", { x1: at, x2: at, y1: 18, y2: floor, class: "watermark" }),
        s("text", { x: at + (right ? -6 : 6), y: 18, "text-anchor": right ? "end" : "start", class: "watermark" }, `W ${second(watermark)}`));
    }
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren(...parts);
    this.describe(found, placed.length);
  }

  bar(window, y, height, x) {
    const { watermark_us: watermark } = this.facts;
    const state = window.closed ? "closed" : watermark !== null && window.end_us <= watermark ? "ended" : "open";
    const left = x(window.start_us), wide = Math.max(2, x(window.end_us) - left - 1);
    const size = window.groups ?? window.rows;
    const title = `${time(window.start_us)} to ${time(window.end_us, window.start_us)}, ${{ open: "open", ended: "past its end, waits for late rows", closed: "closed" }[state]}` +
      (window.closed_in === null ? "" : ` in epoch ${window.closed_in}`) +
      (window.groups === null ? "" : `, ${many(window.groups, "group")}`) + (window.rows === null ? ", not seen open" : `, ${many(window.rows, "row")} of state`);
    const text = size === null ? "" : count(size);
    return s("g", { class: `window ${state}` }, s("title", {}, title),
      s("rect", { x: left, y, width: wide, height, rx: 4, class: `bar ${state}` }),
      text !== "" && wide > 9 * text.length + 6 ? s("text", { x: left + wide / 2, y: y + height / 2 + 4, "text-anchor": "middle", class: "size" }, text) : null);
  }

  describe(found, drawn) {
    const { watermark_us: watermark, bound_us: bound } = this.facts;
    const open = found.timeline.filter((each) => !each.closed);
    const next = open[0];
    const said = [found.total === null ? null : `${many(found.total, "window")} open`,
      watermark === null ? "no watermark yet" : `watermark ${second(watermark)}`,
      bound !== null && bound !== watermark ? `closed up to ${second(bound)} (dashed line): ${duration((watermark - bound) / 1e6)} are left for late rows` : null,
      next === undefined ? null : `next to close: ${time(next.start_us)} to ${time(next.end_us, next.start_us)}`,
      drawn < found.timeline.length ? `${count(drawn)} are drawn` : null,
      "numbers in bars are groups"].filter((each) => each !== null).join(" · ");
    this.text.textContent = said;
    this.svg.setAttribute("aria-label", `Windows against the watermark. ${said}. The table of open windows has the same.`);
  }
}
