// Makes elements. Text from data only ever becomes text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; a child that is not a node becomes text. */
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function s(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, f] of Object.entries(value)) element.addEventListener(event, f);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Replace the text of an element if it differs, so that a screen reader hears only changes. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A table with a caption; numbers are right-aligned. Cells are texts, numbers or nodes. */
export function table(caption, headings, rows, empty = "none") {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const right = headings.map((_, place) => rows.every((row) => typeof row[place] === "number" || /^[–\d]/.test(row[place]) && row[place].length < 16));
  const cell = (value, place, name, more) =>
    h(name, { class: right[place] ? "right" : null, ...more }, typeof value === "number" ? value.toLocaleString("en-US") : value);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {},
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, headings.map((text, place) => cell(text, place, "th", { scope: "col" })))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value, place) =>
        place === 0 ? cell(value, place, "th", { scope: "row" }) : cell(value, place, "td", {})))))));
}
