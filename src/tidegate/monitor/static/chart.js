// Line charts over the clock, drawn as SVG: axes with units, a readout for mouse and keyboard, and
// a table of the same numbers.

import { h, s, say, table } from "./dom.js";
import { many, moment, tick, time } from "./format.js";

const HEIGHT = 190, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 26;
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const TABLE_ROWS = 30;

/** A step of 1, 2 or 5 times a power of ten, so that about so many fit. */
export function niceStep(range, most) {
  const rough = range / most, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
}

/** The ticks of a time axis, microseconds, and how many seconds they are apart. */
export function timeTicks(from, to, most) {
  const range = (to - from) / 1e6;
  let step = STEPS.find((each) => range / each <= most);
  if (step === undefined) step = 86400 * Math.max(1, niceStep(range / 86400, most));
  if (range / STEPS[0] <= 1) step = niceStep(range, most);
  const ticks = [];
  for (let at = Math.ceil(from / 1e6 / step) * step; at <= to / 1e6; at += step) ticks.push(at * 1e6);
  return { ticks, step };
}

/**
 * A chart of some series: {title, unit, format, series: [{name, value: (point) => number|null}]}.
 * `update(points, from, to)` draws it again.
 */
export class Chart {
  constructor(spec) {
    this.spec = spec;
    this.points = [];
    this.at = null;
    this.svg = s("svg", { class: "chart", height: HEIGHT, tabindex: 0, role: "img" });
    this.readout = h("p", { class: "readout", "aria-live": "polite" });
    this.details = h("details", { class: "numbers" }, h("summary", {}, "Numbers"));
    this.details.addEventListener("toggle", () => this.tabulate());
    const keys = spec.series.map((each, place) =>
      h("li", {}, s("svg", { class: "key", width: 22, height: 8, "aria-hidden": "true" },
        s("line", { x1: 0, x2: 22, y1: 4, y2: 4, class: `line line${place}` })), each.name));
    this.element = h("figure", { class: "card" },
      h("figcaption", {}, h("h3", {}, spec.title), h("span", { class: "unit" }, spec.unit), h("ul", { class: "keys" }, keys)),
      this.svg, h("div", { class: "under" }, this.readout, this.details));
    this.svg.addEventListener("pointermove", (event) => this.pointAt(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.select(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("blur", () => this.select(null));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  update(points, from, to) {
    const chosen = this.at === null ? null : this.points[this.at]?.epoch;
    this.points = points;
    this.from = from;
    this.to = Math.max(to, from + 1e6);
    const found = points.findIndex((each) => each.epoch === chosen);
    this.at = chosen === null || found < 0 ? null : found;
    this.draw();
    this.tabulate();
  }

  x(us) {
    return LEFT + (us - this.from) / (this.to - this.from) * (this.width - LEFT - RIGHT);
  }

  draw() {
    this.width = Math.max(200, this.svg.clientWidth);
    const { series, format, unit, title } = this.spec;
    const all = series.flatMap((each) => this.points.map(each.value)).filter((each) => each !== null && each !== undefined);
    const low = Math.min(0, ...all), high = Math.max(this.spec.least ?? 1, ...all);
    const step = niceStep((high - low) * 1.05 || 1, 4);
    const bottom = Math.floor(low / step) * step, top = Math.ceil(high * 1.02 / step) * step;
    const y = (value) => TOP + (top - value) / (top - bottom) * (HEIGHT - TOP - BOTTOM);
    this.y = y;
    const parts = [];
    for (let at = bottom; at <= top + step / 2; at += step) {
      const text = Math.abs(at) < step / 2 ? "0" : format(at);
      parts.push(s("line", { x1: LEFT, x2: this.width - RIGHT, y1: y(at), y2: y(at), class: Math.abs(at) < step / 2 ? "axis" : "grid" }),
        s("text", { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end", class: "tick" }, text));
    }
    if (this.points.length > 0) {
      const { ticks, step: apart } = timeTicks(this.from, this.to, Math.max(2, Math.floor(this.width / 110)));
      for (const at of ticks) {
        parts.push(s("line", { x1: this.x(at), x2: this.x(at), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4, class: "axis" }),
          s("text", { x: this.x(at), y: HEIGHT - 8, "text-anchor": this.x(at) > this.width - 36 ? "end" : "middle", class: "tick" }, tick(at, apart)));
      }
    } else {
      parts.push(s("text", { x: this.width / 2, y: HEIGHT / 2, "text-anchor": "middle", class: "tick" }, "no steps in this time"));
    }
    series.forEach((each, place) => parts.push(...this.lines(each, place)));
    this.cursor = s("g", { class: "cursor" });
    this.svg.replaceChildren(...parts, this.cursor);
    const newest = this.points.at(-1);
    const now = newest === undefined ? "no steps yet" : series.map((each) => `${each.name} ${this.shown(each, newest)}`).join(", ");
    this.svg.setAttribute("aria-label", `${title}, ${unit}: now ${now}. Highest ${format(Math.max(0, ...all))}. Arrow keys read the steps.`);
    this.mark();
  }

  /** A line for each stretch of values, and a dot for one that stands alone. */
  lines(series, place) {
    const found = [];
    let stretch = [];
    const end = () => {
      if (stretch.length === 1) found.push(s("circle", { cx: stretch[0][0], cy: stretch[0][1], r: 2.500, class: `dot dot${place}` }));
      else if (stretch.length > 1) found.push(s("polyline", { points: stretch.map((each) => each.map((n) => n.toFixed(1)).join(",")).join(" "), class: `line line${place}` }));
      stretch = [];
    };
    for (const point of this.points) {
      const value = series.value(point);
      if (value === null || value === undefined) end();
      else stretch.push([this.x(point.clock_us), this.y(value)]);
    }
    end();
    return found;
  }

  shown(series, point) {
    const value = series.value(point);
    return value === null || value === undefined ? "–" : `${this.spec.format(value)}`;
  }

  pointAt(x) {
    let best = null;
    this.points.forEach((point, place) => {
      const away = Math.abs(this.x(point.clock_us) - x);
      if (best === null || away <= best.away) best = { place, away };
    });
    this.select(best === null ? null : best.place);
  }

  key(event) {
    const last = this.points.length - 1, at = this.at ?? last + 1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.select(null);
    else if (to !== undefined && last >= 0) {
      event.preventDefault();
      this.select(Math.max(0, Math.min(last, to)));
    }
  }

  select(place) {
    this.at = place;
    this.mark();
  }

  mark() {
    const point = this.at === null ? undefined : this.points[this.at];
    this.cursor?.replaceChildren();
    if (point === undefined) {
      say(this.readout, "");
      return;
    }
    const x = this.x(point.clock_us);
    this.cursor?.append(s("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
    this.spec.series.forEach((each, place) => {
      const value = each.value(point);
      if (value !== null && value !== undefined) this.cursor?.append(s("circle", { cx: x, cy: this.y(value), r: 3.500, class: `dot dot${place}` }));
    });
    const values = this.spec.series.map((each) => `${each.name} ${this.shown(each, point)}`).join(" · ");
    say(this.readout, `${time(point.clock_us)} · epoch ${point.epoch} · ${values}`);
  }

  tabulate() {
    if (!this.details.open) return;
    const rows = this.points.slice(-TABLE_ROWS).reverse().map((point) =>
      [moment(point.clock_us), point.epoch, ...this.spec.series.map((each) => this.shown(each, point))]);
    const caption = `${this.spec.title}, ${this.spec.unit}: the newest ${many(rows.length, "step")}`;
    const headings = ["clock (UTC)", "epoch", ...this.spec.series.map((each) => each.name)];
    this.details.replaceChildren(this.details.firstElementChild, table(caption, headings, rows, "no steps yet"));
  }
}
