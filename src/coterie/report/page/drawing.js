// Pointing, moving and drawing on the map: what a drag does is chosen by the buttons above it.

function drawing(map) {
  const { canvas, view } = map;
  const modes = all(".modes button");
  let mode = "move", drag = null;
  const spot = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };

  function setMode(next) {
    mode = next;
    modes.forEach((button) => {
      const chosen = button.dataset.mode === next;
      button.setAttribute("aria-checked", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
    });
    canvas.classList.toggle("drawing", next !== "move");
  }
  modes.forEach((button, i) => {
    button.addEventListener("click", () => setMode(button.dataset.mode));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = modes[(i + step + modes.length) % modes.length];
      setMode(next.dataset.mode);
      next.focus();
    });
  });

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const [left, top] = spot(event);
    const how = mode === "move" && event.shiftKey ? "box" : mode;
    if (how !== "move") {
      drag = { how, from: [left, top], add: event.shiftKey || event.ctrlKey || event.metaKey };
      map.outline.path = [[left, top]];
      map.hide();
    } else {
      map.show(map.nearest(left, top, event.pointerType === "mouse" ? 12 : 26));
      if (view.zoom > 1) drag = { how, x: event.clientX - view.left, y: event.clientY - view.top };
    }
    if (drag) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [left, top] = spot(event);
    if (!drag) {
      if (event.pointerType === "mouse") point(map.nearest(left, top, 12));
    } else if (drag.how === "move") {
      map.moveTo(event.clientX - drag.x, event.clientY - drag.y);
    } else {
      const [x, y] = drag.from;
      if (drag.how === "box") map.outline.path = [[x, y], [left, y], [left, top], [x, top]];
      else map.outline.path.push(...event.getCoalescedEvents().map(spot), [left, top]); // also those between frames
      map.draw();
    }
  });
  canvas.addEventListener("pointerup", () => {
    const done = drag, path = map.outline.path;
    cancel();
    if (done && done.how !== "move" && path.length > 2) select(inside(path), done.add ? "add" : "replace");
  });
  canvas.addEventListener("pointercancel", cancel);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "mouse" || drag) return;
    map.hide();
    lightCluster(null);
  });

  function cancel() {
    drag = null;
    map.outline.path = null;
    map.draw();
  }

  let pointed = null; // the cluster under the pointer
  function point(i) {
    map.show(i);
    const c = i < 0 ? null : rows.cluster[i];
    if (c === pointed && (c === null) === (state.lit === null)) return;
    pointed = c;
    lightCluster(c);
  }

  // Rows inside of a polygon: those from which a ray crosses its sides an odd number of times.
  function inside(path) {
    const found = [];
    for (let i = 0; i < n; i++) {
      if (!state.visible[rows.cluster[i]]) continue;
      const x = map.px(i), y = map.py(i);
      let odd = false;
      for (let a = 0, b = path.length - 1; a < path.length; b = a++) {
        const [ax, ay] = path[a], [bx, by] = path[b];
        if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
      }
      if (odd) found.push(i);
    }
    return found;
  }
}
