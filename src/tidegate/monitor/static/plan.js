// The plan as a drawn tree: a card for each node, the sink on top, its input below.

import { h } from "./dom.js";

// Facts that say most about a node; the others are shown on demand.
const FIRST = ["predicate", "event time", "closes", "keys", "aggregates", "path", "lag", "lateness"];

function facts(pairs) {
  return h("dl", {}, pairs.flatMap(([label, text]) => [h("dt", {}, label), h("dd", {}, text)]));
}

function node(each) {
  const main = each.facts.filter(([label]) => FIRST.includes(label));
  const rest = each.facts.filter(([label]) => !FIRST.includes(label));
  return h("li", {},
    h("div", { class: "node" },
      h("strong", {}, each.name),
      each.parameters.length === 0 ? null : h("span", { class: "parameters" }, each.parameters.map(([name, text]) => h("span", {}, `${name} ${text}`))),
      main.length === 0 ? null : facts(main),
      rest.length === 0 ? null : h("details", {}, h("summary", {}, `${rest.length} more`), facts(rest))),
    each.children.length === 0 ? null : h("ul", {}, each.children.map(node)));
}

/** The drawn tree of a plan. */
export function planTree(root) {
  return root === null || root === undefined ? h("p", { class: "empty" }, "The checkpoint does not hold the plan.") : h("ul", { class: "tree" }, node(root));
}
