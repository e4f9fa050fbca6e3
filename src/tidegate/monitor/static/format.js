// Numbers and times as people read them. Times are microseconds since 1970, in UTC.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** A number in full, with thousands separators; a dash where there is none. */
export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

/** A number in few characters: 950, 1.2k, 3.4M. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit * 0.9995) return trimmed(value / unit) + letter;
  }
  return size > 0 && size < 0.01 ? value.toPrecision(1) : trimmed(value);
}

function trimmed(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits).replace(/\.0+$|(\.\d*[1-9])0+$/, "$1");
}

/** Seconds as a duration: 120 ms, 3.5 s, 12 min, 5 h, 3 d. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1) return `${trimmed(seconds * 1000)} ms`;
  for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (size >= unit * 2) return `${trimmed(seconds / unit)} ${name}`;
  }
  return `${trimmed(seconds)} s`;
}

/** Bytes: 12 kB, 3.4 MB. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  return value < 1000 ? `${value} B` : `${short(value).replace(/[a-zA-Z]/, (l) => ` ${l}`)}B`;
}

function iso(us) {
  const moment = new Date(us / 1000);
  return Number.isNaN(moment.getTime()) ? null : moment.toISOString();
}

/** A moment in full: 2026-01-01 10:00:21.5 */
export function moment(us) {
  if (us === null || us === undefined) return "–";
  const text = iso(us);
  return text === null ? `${us} µs` : text.replace("T", " ").replace(/\.?0*Z$/, "");
}

/** The time of day; with the date if that differs from another moment's. */
export function time(us, near = us) {
  const text = moment(us), other = moment(near);
  return text.slice(0, 10) === other.slice(0, 10) ? text.slice(11) : text;
}

/** A tick of an axis whose ticks are some seconds apart. */
export function tick(us, step) {
  const text = iso(us);
  if (text === null) return `${us}`;
  if (step >= 86400) return text.slice(0, 10);
  return step >= 60 ? text.slice(11, 16) : text.slice(11, step < 1 ? 23 : 19);
}

/** The time of day to the second, as it stands in a large font. */
export function second(us) {
  return moment(us).slice(11, 19) || moment(us);
}

/** A window as it is kept, kind name="JSON" .., in words: what is nothing is left out. */
export function windowWords(text) {
  const [kind, ...rest] = text.split(" ");
  const pairs = [...rest.join(" ").matchAll(/(\w+)=("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^\s]+)/g)].map(([, name, value]) => [name.replaceAll("_", " "), value.replace(/^"|"$/g, "")]);
  const told = pairs.filter(([name, value]) => !["null", "[]"].includes(value) && !(name === "offset" && value === "0s"));
  return [kind, ...told.map(([name, value]) => `${name} ${value}`)].join(" · ");
}

/** A word for a number of things: 1 row, 2 rows. */
export function many(value, one, more = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : more}`;
}
