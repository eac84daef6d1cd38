// Selected rows: found, listed, counted by cluster and view, and written to a file.

const ROWS_AT_A_TIME = 100;
const FOUND_AT_MOST = 12;

function search(map) {
  const input = $("search"), list = $("search-found"), status = $("search-status");
  const haystack = rows.rows.map((row, i) => `${rows.ids ? rows.ids[i] : row}\n${rows.texts && rows.texts[i] ? rows.texts[i] : ""}`.toLowerCase());
  let found = [];

  function look() {
    const wanted = input.value.trim().toLowerCase();
    found = wanted ? haystack.flatMap((text, i) => (text.includes(wanted) ? [i] : [])) : [];
    const exact = found.filter((i) => haystack[i].startsWith(`${wanted}\n`));
    found = [...exact, ...found.filter((i) => !exact.includes(i))];
    list.replaceChildren();
    list.hidden = !wanted;
    if (!wanted) return (status.textContent = "");
    for (const i of found.slice(0, FOUND_AT_MOST)) {
      const item = element("li"), button = element("button");
      button.type = "button";
      button.append(mark(rows.cluster[i]), element("bdi", idOf(i)));
      if (rows.texts && rows.texts[i]) button.append(element("small", rows.texts[i]));
      button.addEventListener("click", () => {
        select([i]);
        close();
        map.locate(i);
      });
      item.append(button);
      list.append(item);
    }
    const missing = n < report.rows ? ` among the ${n.toLocaleString("en")} rows that are drawn here; a larger sample draws more` : "";
    const said = found.length ? `${counted(found.length, "row")} found` : `No such row${missing}.`;
    status.textContent = said;
    if (!found.length || found.length > FOUND_AT_MOST) list.append(element("li", said, "none"));
  }

  const close = () => { list.hidden = true; };
  input.addEventListener("input", look);
  input.addEventListener("focus", () => input.value && look());
  $("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    look();
    close();
    if (!found.length) return;
    select(found);
    map.locate(found[0]);
  });
  $("search-form").addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  document.addEventListener("pointerdown", (event) => event.target.closest("#search-form") || close());
}

function selection(map) {
  const body = $("selection-body"), table = $("picked"), more = $("picked-more");
  const columns = columnsOf();
  let listed = [];
  let located = -1; // a row that was gone to stays shown when the page moves away below the pointer

  const heads = [...(rows.pictures ? ["picture"] : []), "row", "cluster", "confidence", ...(rows.texts ? ["text"] : []), ...columns.map((c) => c.name)];
  heads.forEach((name) => {
    const cell = element("th");
    cell.scope = "col";
    cell.append(element("bdi", name));
    $("picked-head").append(cell);
  });

  function show() {
    const chosen = [...state.selected].sort((a, b) => rows.cluster[a] - rows.cluster[b] || rows.confidence[b] - rows.confidence[a]);
    const some = chosen.length > 0;
    const clusters = new Set(chosen.map((i) => rows.cluster[i])).size;
    $("selection-status").textContent = some
      ? `${counted(chosen.length, "row")} of ${n.toLocaleString("en")} on the map, in ${counted(clusters, "cluster")}.`
      : "No row is selected.";
    body.hidden = !some;
    $("selection-csv").disabled = $("selection-clear").disabled = !some;
    $("selection").dataset.rows = String(chosen.length);
    byCluster(chosen);
    if (rows.opinions) byView(chosen);
    listed = chosen;
    table.replaceChildren();
    listMore();
    markElsewhere(chosen);
  }

  function byCluster(chosen) {
    const counts = new Map();
    chosen.forEach((i) => counts.set(rows.cluster[i], (counts.get(rows.cluster[i]) || 0) + 1));
    const lines = [...counts].sort((a, b) => b[1] - a[1]).map(([c, count]) => {
      const line = share(nameOf(c), count, chosen.length, colourOf(c));
      line.prepend(mark(c));
      line.addEventListener("pointerenter", () => lightCluster(c));
      line.addEventListener("pointerleave", () => lightCluster(null));
      return line;
    });
    $("by-cluster").replaceChildren(...lines);
  }

  function byView(chosen) {
    const lines = report.views.map((view, v) => {
      const has = chosen.filter((i) => rows.opinions[i][v] >= 0);
      const agrees = has.filter((i) => rows.opinions[i][v] === rows.cluster[i]);
      const line = share(view, agrees.length, has.length, css("--accent"));
      if (has.length < chosen.length) line.append(element("small", `${chosen.length - has.length} lack it`));
      line.title = `${agrees.length} of the ${has.length} rows that have the view are put into their cluster by it alone`;
      return line;
    });
    $("by-view").replaceChildren(...lines);
  }

  function share(name, count, total, colour) {
    const line = element("li"), bar = element("span", undefined, "bar"), fill = element("i");
    fill.style.width = `${total ? (100 * count) / total : 0}%`;
    fill.style.background = colour;
    bar.append(fill);
    bar.setAttribute("aria-hidden", "true");
    line.append(element("bdi", name), bar, element("span", total ? `${percent(count / total)} (${count})` : "–", "v"));
    return line;
  }

  function listMore() {
    const next = listed.slice(table.rows.length, table.rows.length + ROWS_AT_A_TIME);
    next.forEach((i) => table.append(rowLine(i)));
    more.hidden = table.rows.length >= listed.length;
  }

  function rowLine(i) {
    const line = element("tr");
    const cell = (part, className) => {
      const made = element("td", undefined, className);
      made.append(part);
      line.append(made);
    };
    if (rows.pictures) cell(tile(i, 40));
    const go = element("button", undefined, "go");
    go.type = "button";
    go.append(element("bdi", idOf(i)));
    go.addEventListener("click", () => {
      located = i;
      map.locate(i);
    });
    const head = element("th");
    head.scope = "row";
    head.append(go);
    line.append(head);
    const where = element("span");
    where.append(mark(rows.cluster[i]), element("bdi", nameOf(rows.cluster[i])));
    cell(where);
    cell(rows.confidence[i].toFixed(2), "num");
    if (rows.texts) cell(element("bdi", rows.texts[i] || ""), "text");
    columns.forEach((column) => cell(element("bdi", valueOf(column, i))));
    line.addEventListener("pointerenter", () => {
      if (located >= 0 && located !== i) return; // the page moved, not the pointer
      map.show(i);
    });
    line.addEventListener("pointermove", () => { located = located === i ? i : -1; });
    line.addEventListener("pointerleave", () => located === i || map.hide());
    return line;
  }

  // Cards say how many of their rows are selected; lines of tables that are selected stand out.
  function markElsewhere(chosen) {
    const counts = new Array(K).fill(0);
    chosen.forEach((i) => counts[rows.cluster[i]]++);
    all("[data-chosen]").forEach((part) => {
      const count = counts[Number(part.dataset.chosen)];
      part.textContent = count ? `${count.toLocaleString("en")} selected` : "";
      part.closest(".card").classList.toggle("has-chosen", count > 0);
    });
    all("[data-picked]").forEach((line) => {
      line.classList.toggle("picked-line", state.selected.has(placeOfRow.get(Number(line.dataset.picked))));
    });
  }

  // -- the file -------------------------------------------------------------------------------------------------

  // A text that begins like a formula would be run by a spreadsheet: an apostrophe keeps it text.
  function csvCell(value) {
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function csv() {
    const head = ["row", "id", "cluster", "name", "confidence", ...(rows.texts ? ["text"] : []), ...columns.map((c) => c.name)];
    const value = (column, i) => (column.kind === "number" ? (column.values[i] ?? "") : column.values[i] < 0 ? "" : column.levels[column.values[i]]);
    const lines = listed.map((i) => [
      rows.rows[i], rows.ids ? rows.ids[i] : String(rows.rows[i]), rows.cluster[i], state.names[rows.cluster[i]], rows.confidence[i],
      ...(rows.texts ? [rows.texts[i] || ""] : []), ...columns.map((column) => value(column, i)),
    ]);
    return [head, ...lines].map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
  }

  $("selection-csv").addEventListener("click", () => download("selection.csv", `\ufeff${csv()}`, "text/csv;charset=utf-8"));
  $("selection-clear").addEventListener("click", () => {
    select([]);
    $("canvas").focus({ preventScroll: true });
  });
  more.querySelector("button").addEventListener("click", listMore);
  all("button.take").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", (event) => {
      const wanted = Number(button.dataset.cluster);
      select(rowsOfCluster((c) => c === wanted), event.shiftKey ? "add" : "replace");
    });
  });
  on("selection", show);
  on("names", () => state.selected.size && show());

  // Names of rows all over the page lead to the map.
  for (const part of all("[data-row]")) {
    const i = placeOfRow.get(Number(part.dataset.row));
    if (i === undefined) continue;
    part.classList.add("go");
    part.tabIndex = 0;
    part.setAttribute("role", "button");
    const go = () => {
      select([i]);
      map.locate(i);
    };
    part.addEventListener("click", go);
    part.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      go();
    });
  }
}
