// What all parts share: the report's data, the state of the page, and who is told when it changes.

const report = JSON.parse(document.getElementById("points").textContent);
const $ = (id) => document.getElementById(id);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

const element = (tag, text, className) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text; // names are text, whatever they look like
  if (className) made.className = className;
  return made;
};
const digits = (value) => (value === null ? "none" : String(Number(value.toPrecision(3))));
const percent = (share) => (share === 1 ? "100%" : `${(100 * share).toFixed(1)}%`);
const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const K = report.clusters.length;
const rows = report.embedding; // a list for each of their properties; null without a map
const n = rows ? rows.x.length : 0;

const state = {
  by: "cluster", // what colours say
  groups: report.clusters.map((c) => c.label), // the cluster whose colour each cluster has
  visible: new Array(K).fill(true),
  lit: null, // a function of rows: those that are not dimmed
  selected: new Set(), // of rows' places in the lists
  names: report.clusters.map((c) => c.name || ""),
  at: -1, // the row that is pointed at
};

const listeners = {};
const on = (event, listener) => (listeners[event] ||= []).push(listener);
const tell = (event, ...rest) => (listeners[event] || []).forEach((listener) => listener(...rest));

const colourOf = (cluster) => report.palette[state.groups[cluster] % report.palette.length];
const shapeOf = (cluster) => Math.floor(cluster / report.per_shape) % report.shapes.length;
const nameOf = (cluster) => state.names[cluster] || String(cluster);
const idOf = (i) => (rows.ids ? rows.ids[i] : `row ${rows.rows[i]}`);
const columnsOf = () => [...rows.columns, ...rows.derived];
const valueOf = (column, i) => {
  const value = column.values[i];
  if (column.kind === "name") return value < 0 ? "none" : column.levels[value];
  return digits(value);
};

const light = (test) => {
  state.lit = test;
  tell("light");
};
const lightCluster = (c) => light(c === null || !state.visible[c] ? null : (i) => rows.cluster[i] === c);

const placeOfRow = new Map(rows ? rows.rows.map((row, i) => [row, i]) : []);
const rowsOfCluster = (test) => rows.cluster.flatMap((c, i) => (test(c) ? [i] : []));

function select(places, how = "replace") {
  const next = how === "replace" ? new Set() : new Set(state.selected);
  for (const i of places) {
    if (how === "toggle" && next.has(i)) next.delete(i);
    else next.add(i);
  }
  state.selected = next;
  tell("selection");
}

// A mark as the template draws it, for lists that the script makes.
function mark(cluster) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "mark");
  svg.setAttribute("viewBox", "-1.2 -1.2 2.4 2.4");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#m${shapeOf(cluster)}`);
  use.setAttribute("fill", colourOf(cluster));
  svg.append(use);
  return svg;
}

function download(name, text, type) {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The row's picture, cut from the one picture of all rows.
function tile(i, longest = 56) {
  const pictures = rows.pictures;
  const size = Math.max(1, Math.round(longest / Math.max(pictures.width, pictures.height)));
  const made = element("div", undefined, "tile");
  const column = i % pictures.across, down = Math.floor(i / pictures.across);
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", `picture of ${idOf(i)}`);
  made.style.width = `${pictures.width * size}px`;
  made.style.height = `${pictures.height * size}px`;
  made.style.backgroundImage = `url(${pictures.picture})`;
  made.style.backgroundSize = `${pictures.width * size * pictures.across}px auto`;
  made.style.backgroundPosition = `-${column * pictures.width * size}px -${down * pictures.height * size}px`;
  return made;
}
