// A page in which runs are computed: settings, a view, curves. `window.geonhPlay` is its state, for tests and pages
// that embed it.
(async () => {
  const $ = geonhElement, header = JSON.parse($("header").textContent);
  const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8], ROWS = 4000, SEGMENTS = 6000;
  const BUDGET = 9; // milliseconds of a frame for steps
  let array, T, models;
  try {
    ({ array, T } = await geonhOpened());
    models = await Promise.all(header.models.map(({ data, code }) => geonhModel("model", data, code)));
  } catch (error) {
    return geonhWarn("This browser cannot run the page: " + error.message);
  }
  const first = header.models[0].data;
  const { low, high } = header, size = Math.hypot(...low.map((v, i) => high[i] - v)) || 1;

  const state = {
    playing: false, speed: 1, camera: "follow", traces: true, chosen: 0,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
  };

  // --- scene -----------------------------------------------------------------------------------------------------
  const canvas = $("scene"), bodySize = Math.max(1e-3 * size, geonhBodySize(header.bodies, array));
  const solid = Math.max(0, header.bodies.findIndex((body) => !body.ground && body.parts.some((part) => part.faces.n)));
  const anchor = () => new T.Vector3().setFromMatrixPosition(runs[0].bodies[solid].matrix);
  const cells = () => runs.length, near = Math.min(size, 9 * bodySize);
  let view, runs = [];
  try {
    view = new GeonhView(T, canvas, array, { low, high, size, near, cells, anchor, state });
  } catch (error) {
    return geonhWarn("This browser shows no WebGL, which the view in three dimensions needs.");
  }
  const { scene, camera, controls, mesh, arrowOf, point } = view;
  const arrow = arrowOf("#CC3311");
  arrow.visible = false;
  scene.add(arrow);

  // --- runs ------------------------------------------------------------------------------------------------------
  /** Settings of a run: what a link holds. */
  const defaults = () => ({
    method: 0, parameters: Object.fromEntries(first.parameters.map(({ name }, i) => [name, first.defaults.parameters[i]])),
    point: [...first.defaults.point], velocity: [...first.defaults.velocity], inputs: [...first.defaults.inputs],
    dt: first.defaults.times[1],
  });

  // Places in what a method observes of what the first one does: methods differ in what their nodes have.
  const columns = header.models.map(({ data }) => first.observed.map(({ name }) => data.observed.findIndex((q) => q.name === name)));

  class Side {
    constructor(index, settings) {
      this.index = index;
      this.settings = settings;
      this.colour = geonhColour(index);
      this.group = new T.Group();
      scene.add(this.group);
      this.bodies = header.bodies.map((body) => {
        const object = new T.Group();
        object.name = body.name;
        object.matrixAutoUpdate = false;
        for (const part of body.parts) object.add(mesh(part, body, index ? this.colour : null));
        this.group.add(object);
        return object;
      });
      this.paths = header.traces.map(([body, trace]) => {
        const shape = new T.LineGeometry();
        shape.setPositions(new Float32Array(3 * (SEGMENTS + 1)));
        const colour = index ? this.colour : header.bodies[body].colour || this.colour;
        const material = new T.LineMaterial({ color: colour, linewidth: 2 });
        const line = new T.Line2(shape, material);
        line.frustumCulled = false;
        this.group.add(line);
        return { body, trace: new T.Vector3(...trace), shape, material, line, points: [] };
      });
      this.reset();
    }

    /** Begin anew with the settings; the velocity is projected onto the constraints. */
    reset() {
      const { method, parameters, point, velocity, inputs, dt } = this.settings;
      if (this.run?.constructor !== models[method]) this.run = new models[method]();
      const run = this.run;
      run.setParameters(parameters);
      run.set("times", [0, dt]);
      const nearest = run.project(point, velocity);
      const found = [...nearest.point, ...nearest.velocity].every(Number.isFinite) ? nearest : { point, velocity };
      this.start = found;
      run.start({}, { point: found.point, velocity: found.velocity, inputs });
      this.rows = [];
      this.every = 1; // steps from row to row
      this.steps = 0;
      for (const path of this.paths) path.points = [];
      this.keep();
      this.show();
      return this;
    }

    /** Velocity at the start on the constraints of which one number is given; as it is, where they determine that. */
    withVelocity(i, value) {
      const { point, velocity } = this.start;
      const along = this.run.project(point, velocity.map((v, k) => v + (k === i))).velocity.map((v, k) => v - velocity[k]);
      const part = (value - velocity[i]) / along[i];
      return Math.abs(along[i]) > 1e-9 && isFinite(part) ? velocity.map((v, k) => v + part * along[k]) : [...velocity];
    }

    get time() {
      return this.row[0];
    }

    /** Steps up to a time, as far as there is time for them. */
    advanceTo(t, milliseconds) {
      const dt = this.settings.dt, until = performance.now() + milliseconds;
      for (let left = Math.floor((t - this.time) / dt + 1e-9); left > 0 && this.run.status === 0;) {
        const n = Math.min(left, this.pace || 1, this.every - (this.steps % this.every)), begun = performance.now();
        this.run.advance(n);
        left -= n;
        this.steps += n;
        if (this.steps % this.every === 0 && this.run.status === 0) this.keep();
        const took = performance.now() - begun;
        this.pace = Math.max(1, Math.min(2 * n, Math.round((n * 2) / Math.max(took, 1e-3))));
        if (performance.now() > until) break;
      }
      this.show();
    }

    /** What is observed now, and the controls. */
    look() {
      const values = this.run.observed();
      const seen = columns[this.settings.method].map((place) => place < 0 ? NaN : values[place]);
      this.row = [...seen, ...this.settings.inputs];
      return this.row;
    }

    /** Keep a row; of too many, every other one. */
    keep() {
      this.rows.push(this.look());
      if (this.rows.length <= ROWS) return;
      this.rows = this.rows.filter((_, i) => i % 2 === 0);
      this.every *= 2;
    }

    /** Rows so far, with what is seen now. */
    history() {
      const last = this.rows[this.rows.length - 1];
      return last[0] === this.row[0] ? this.rows : [...this.rows, this.row];
    }

    show() {
      this.look();
      this.pose();
      for (const path of this.paths) {
        path.points.push(path.trace.clone().applyMatrix4(this.bodies[path.body].matrix));
        if (path.points.length > SEGMENTS) path.points = path.points.filter((_, i) => i % 2 === 0);
      }
      view.dirty = true;
    }

    pose() {
      this.run.call("pose", "parameters", "inputs", "state", "pose");
      const pose = this.run.vectors.pose, n = this.bodies.length;
      this.bodies.forEach((object, b) => {
        const R = pose.subarray(9 * b, 9 * b + 9), x = pose.subarray(9 * n + 3 * b, 9 * n + 3 * b + 3);
        object.matrix.set(R[0], R[1], R[2], x[0], R[3], R[4], R[5], x[1], R[6], R[7], R[8], x[2], 0, 0, 0, 1);
        object.matrixWorldNeedsUpdate = true;
      });
    }

    /** Push a point of a body in space: change its velocity along a vector by the length of it. */
    push(body, at, change) {
      const { run } = this, n = this.bodies.length, hand = new Array(n + 6).fill(0);
      hand[body] = 1;
      at.forEach((v, i) => { hand[n + i] = v; });
      change.forEach((v, i) => { hand[n + 3 + i] = v; });
      run.set("hand", hand);
      const status = run.call("push", "parameters", "inputs", "state", "hand", "pushed");
      if (status !== 0) return status;
      run.set("state", run.vectors.pushed);
      run.status = 0;
      this.rows.push(this.look()); // a second row at this time
      this.show();
      return 0;
    }

    drawPaths() {
      for (const { shape, line, points, material } of this.paths) {
        const data = shape.attributes.instanceStart.data, n = points.length - 1;
        for (let i = 0; i < n; i++) {
          points[i].toArray(data.array, 6 * i);
          points[i + 1].toArray(data.array, 6 * i + 3);
        }
        data.needsUpdate = true;
        shape.instanceCount = Math.max(n, 0);
        line.visible = state.traces && n > 0;
        material.resolution.set(...view.cell());
      }
    }
  }

  function render() {
    const drawn = view.render((k) => {
      for (const run of runs) run.group.visible = run === runs[k];
      runs[k].drawPaths();
    });
    if (drawn) $("clock").textContent = `${runs[0].time.toFixed(2)} ${header.second}`;
  }
  const labels = () => view.label((runs.length > 1 ? runs : []).map(({ colour, settings }, k) => (
    { text: `run ${"AB"[k]}: ${header.models[settings.method].method}`, colour })));

  // --- settings --------------------------------------------------------------------------------------------------
  const rounded = (value, noise = 0) => Math.abs(value) < noise ? 0 : Number(value.toPrecision(6));
  const rangeOf = (value) => value === 0 ? [-1, 1] : value > 0 ? [0.1 * value, 4 * value] : [4 * value, 0.1 * value];
  /** Range and box of a number: `change` takes a new one, `read` gives the one that was taken; below `noise` it is 0. */
  function slider(label, unit, read, [from, to], change, noise) {
    const value = read();
    const row = document.createElement("label"), name = document.createElement("span");
    const range = document.createElement("input"), number = document.createElement("input");
    row.className = "slider";
    name.textContent = label;
    name.title = unit ? `${label}: ${unit}` : label;
    Object.assign(range, { type: "range", min: from, max: to, step: "any", value });
    Object.assign(number, { type: "number", step: "any", value: rounded(value, noise) });
    range.setAttribute("aria-label", name.title);
    number.setAttribute("aria-label", `${name.title}, as a number`);
    range.addEventListener("input", () => change(Number(range.value)));
    number.addEventListener("change", () => {
      if (number.value !== "" && isFinite(number.value)) change(Number(number.value));
      number.value = rounded(read(), noise);
    });
    row.append(name, range, number);
    row.show = (now) => {
      if (document.activeElement !== range) range.value = now;
      if (document.activeElement !== number) number.value = rounded(now, noise);
    };
    return row;
  }
  let shown = [];
  function settings() {
    const side = runs[state.chosen], given = side.settings, groups = [];
    shown = [];
    const group = (title, rows, open, note) => {
      if (!rows.length) return;
      const details = document.createElement("details"), summary = document.createElement("summary");
      details.open = open;
      summary.textContent = title;
      details.append(summary, ...rows);
      if (note) {
        const text = document.createElement("p");
        text.className = "note";
        text.textContent = note;
        details.append(text);
      }
      groups.push(details);
    };
    const row = (label, unit, read, range, write, { after = () => restart(side), noise = 0 } = {}) => {
      const made = slider(label, unit, read, range, (value) => { write(value); after(); }, noise);
      shown.push(() => made.show(read()));
      return made;
    };
    const method = document.createElement("label"), select = document.createElement("select");
    method.className = "slider";
    select.setAttribute("aria-label", "Method");
    select.append(...header.models.map((model, i) => new Option(model.method, i, false, i === given.method)));
    select.title = header.models[given.method].about;
    select.addEventListener("change", () => { given.method = Number(select.value); restart(side); labels(); facts(); });
    method.append("method", select);
    const step = row("step", header.second, () => given.dt, [given.dt / 10, given.dt * 5], (v) => { if (v > 0) given.dt = v; });
    group("Method", [...(header.models.length > 1 ? [method] : []), step], true);
    group("Parameters", first.parameters.map(({ name, unit }) => row(name, unit, () => given.parameters[name],
      rangeOf(first.defaults.parameters[first.parameters.findIndex((p) => p.name === name)]), (v) => { given.parameters[name] = v; })),
    first.parameters.length <= 8, "Bodies are drawn as they are with the parameters by default.");
    const fastest = Math.max(...first.defaults.velocity.map(Math.abs)), speeds = Math.max(1, fastest);
    const start = first.velocity.map(({ name, unit }, i) => row(name, unit, () => side.start.velocity[i], [-2 * speeds, 2 * speeds],
      (v) => { given.velocity = side.withVelocity(i, v); }, { noise: 1e-12 * (fastest || 1) }));
    group("Velocity at the start", start, true, "The others change with one as the constraints demand.");
    const places = first.point.map(({ name, unit }, i) => first.free[i] && row(name, unit, () => side.start.point[i],
      [first.defaults.point[i] - 3, first.defaults.point[i] + 3], (v) => { given.point = [...side.start.point]; given.point[i] = v; },
      { noise: 1e-12 }));
    group("Point at the start", places.filter(Boolean), false);
    const steer = () => {
      side.run.set("inputs", given.inputs);
      for (const show of shown) show();
      remember();
    };
    group("Controls", given.inputs.map((_, i) => row(`u[${i}]`, "held", () => given.inputs[i], [-2, 2], (v) => { given.inputs[i] = v; }, { after: steer })),
      true, "Held from the next step on: the run goes on.");
    $("settings").replaceChildren(...groups);
    $("which").hidden = runs.length < 2;
    $("which").replaceChildren(...runs.map((run, k) => {
      const button = document.createElement("button");
      button.textContent = `run ${"AB"[k]}`;
      button.setAttribute("role", "radio");
      button.setAttribute("aria-checked", k === state.chosen);
      button.setAttribute("aria-pressed", k === state.chosen);
      button.addEventListener("click", () => { state.chosen = k; settings(); });
      return button;
    }));
  }
  /** Begin anew with changed settings. */
  function restart(side) {
    unread = "";
    side.reset();
    for (const other of runs) if (other !== side && other.time > 0) other.reset();
    target = 0;
    for (const show of shown) show();
    told();
    remember();
    drawCurves();
  }

  // --- curves, tables, links -------------------------------------------------------------------------------------
  const figures = header.panels.map((panel) => ({ panel, ...geonhFigure($("plots"), panel.title, panel.unit) }));
  /** Values of a curve along the rows of a history; logarithms of errors. */
  function valuesOf(panel, { places, absolute }, rows) {
    if (!panel.log) return rows.map((row) => row[places[0]]);
    let scale = 1;
    if (!absolute && places.some((p) => Math.abs(rows[0][p]) > 1e-12))
      for (const row of rows) for (const p of places) scale = Math.max(scale === 1 ? 0 : scale, Math.abs(row[p]));
    return rows.map((row) => {
      let error = 0;
      for (const p of places) error = Math.max(error, Math.abs(absolute ? row[p] : row[p] - rows[0][p]));
      return Math.log10(Math.max(error / scale, 1e-17));
    });
  }
  let drawn = 0, named = 0; // when curves were drawn, and for how many runs their keys are
  /** Draw the curves: of one run, each in a colour of its own; of two, each run in its colour. */
  function drawCurves() {
    drawn = performance.now();
    const several = runs.length > 1, rows = runs.map((run) => run.history()), times = rows.map((kept) => kept.map((row) => row[0]));
    const begin = Math.min(...times.map((t) => t[0])), end = Math.max(begin + 0.1, ...times.map((t) => t[t.length - 1]));
    for (const { panel, canvas, keys } of figures) {
      const stroke = (i, run) => (several ? run?.colour ?? "currentColor" : geonhColour(i));
      if (named !== runs.length) keys.replaceChildren(...panel.curves.map(({ name }, i) => geonhKey(name, stroke(i), geonhDash(i))));
      const curves = runs.flatMap((run, k) => panel.curves.map((curve, i) => (
        { t: times[k], y: valuesOf(panel, curve, rows[k]), colour: stroke(i, run), dash: geonhDash(i) })));
      const w = canvas.clientWidth, h = canvas.clientHeight;
      if (w && h) geonhDraw(canvas, w, h, { curves, log: panel.log, begin, end, second: header.second });
    }
    named = runs.length;
  }
  function csv() {
    const names = first.observed.map(({ name, unit }) => `"${(unit ? `${name} (${unit})` : name).replaceAll('"', '""')}"`);
    names.push(...first.defaults.inputs.map((_, i) => `"u[${i}]"`));
    const lines = runs.flatMap((run, k) => run.history().map((row) => ["AB"[k], ...row].join(",")));
    return [["run", ...names].join(","), ...lines, ""].join("\n");
  }
  const link = () => "#" + encodeURIComponent(JSON.stringify({ runs: runs.map((run) => run.settings), speed: state.speed, camera: state.camera }));
  function remember() {
    try { history.replaceState(null, "", link()); } catch { /* a page within another has no address */ }
  }
  addEventListener("hashchange", () => location.reload()); // a link opened where the page already is
  let unread = ""; // of the link, until a run begins anew
  /** Settings of a link, those that are valid. */
  function linked() {
    if (location.hash.length < 2) return [defaults()];
    let given;
    try { given = JSON.parse(decodeURIComponent(location.hash.slice(1))); } catch { /* cut off, as by a mail program */ }
    const skipped = new Set();
    const taken = (name, valid) => { if (!valid) skipped.add(name); return valid; };
    if (!Array.isArray(given?.runs) || !given.runs.length) {
      unread = "The link cannot be read: these are the settings by default.";
      return [defaults()];
    }
    if (SPEEDS.includes(given.speed)) state.speed = given.speed;
    if (geonhCameras().includes(given.camera)) state.camera = given.camera;
    const found = given.runs.slice(0, 2).map((said) => {
      const settings = defaults();
      if (taken("method", Number.isInteger(said?.method) && header.models[said.method])) settings.method = said.method;
      if (taken("dt", Number.isFinite(said?.dt) && said.dt > 0)) settings.dt = said.dt;
      for (const name of Object.keys(settings.parameters))
        if (taken(name, Number.isFinite(said?.parameters?.[name]))) settings.parameters[name] = said.parameters[name];
      for (const name of ["point", "velocity", "inputs"])
        if (taken(name, Array.isArray(said?.[name]) && said[name].length === settings[name].length && said[name].every(Number.isFinite)))
          settings[name] = said[name];
      return settings;
    });
    if (skipped.size) unread = `The link does not give ${[...skipped].join(", ")} for this page: these are as by default.`;
    return found;
  }

  // --- what the user does ----------------------------------------------------------------------------------------
  let target = 0; // time that the runs are to reach
  function told() {
    const texts = runs.filter((run) => run.run.status !== 0).map((run) => (runs.length > 1 ? `run ${"AB"[run.index]}: ` : "")
      + `stopped at t = ${run.time.toPrecision(5)} ${header.second}: ${run.run.message || "it could not start"}`);
    geonhWarn([unread, ...texts].filter(Boolean).join("; "));
    if (texts.length && texts.length === runs.length) setPlaying(false);
  }
  function advance(t, milliseconds = Infinity) {
    for (const run of runs) run.advanceTo(t, milliseconds / runs.length);
    told();
  }
  function setPlaying(on) {
    state.playing = on && runs.some((run) => run.run.status === 0);
    target = Math.min(...runs.map((run) => run.time));
    geonhPlaying(state.playing, ["Stop", "Start"]);
    view.dirty = true;
  }
  function reset() {
    for (const run of runs) run.reset();
    target = 0;
    told();
    drawCurves();
    view.aim();
  }
  function setSecond(on) {
    if (on && runs.length < 2) {
      const copy = structuredClone(runs[0].settings);
      if (header.models.length > 1) copy.method = (copy.method + 1) % header.models.length;
      runs.push(new Side(1, copy));
      runs[0].reset();
    } else if (!on && runs.length > 1) {
      scene.remove(runs.pop().group);
      state.chosen = 0;
    }
    target = 0;
    settings();
    apply();
    drawCurves();
    remember();
  }
  function set(name, value) {
    state[name] = value;
    apply();
    if (name === "camera") view.aim();
  }
  function apply() {
    view.apply();
    $("traces").setAttribute("aria-pressed", state.traces);
    $("second").setAttribute("aria-pressed", runs.length > 1);
    labels();
    facts();
    resize();
  }
  function facts() {
    $("facts").textContent = `${header.system}, ${header.models[runs[0].settings.method].method}: computed in this page`;
  }
  function resize() {
    view.resize();
    drawCurves();
  }
  /** Push to the right of the view, at the body's origin, by its size in a second. */
  function nudge() {
    const right = new T.Vector3().setFromMatrixColumn(camera.matrixWorld, 0), at = anchor();
    runs[state.chosen].push(solid, at.toArray(), right.multiplyScalar(2 * bodySize).toArray());
    drawCurves();
  }

  // A drag that begins on a body pushes it.
  const ray = new T.Vector3(), place = new T.Vector3();
  let held = null;
  /** Point of the view under the mouse, in the coordinates of its cell, and the run shown there. */
  function under(event) {
    const box = canvas.getBoundingClientRect(), [cw, ch] = view.cell(), x = event.clientX - box.left, y = event.clientY - box.top;
    const k = Math.min(runs.length - 1, Math.floor(cw < box.width - 1 ? x / cw : y / ch));
    const inside = cw < box.width - 1 ? [x - k * cw, y] : [x, y - k * ch];
    return { run: runs[k], x: (2 * inside[0]) / cw - 1, y: 1 - (2 * inside[1]) / ch };
  }
  /** Body whose origin or corner is nearest to the mouse, on the screen, and the depth there. */
  function grabbed({ run, x, y }) {
    let best = null;
    header.bodies.forEach((body, b) => {
      if (body.ground) return;
      for (const part of body.parts) {
        const v = array(part.vertices);
        for (let i = 0; i < v.length; i += 3) {
          place.set(v[i], v[i + 1], v[i + 2]).applyMatrix4(run.bodies[b].matrix);
          const world = place.clone();
          place.project(camera);
          const far = Math.hypot(place.x - x, place.y - y);
          if (far < 0.12 && (!best || far < best.far - 1e-3 || (far < best.far + 1e-3 && place.z < best.depth)))
            best = { run, body: b, far, depth: place.z, world };
        }
      }
    });
    return best;
  }
  const inSpace = ({ x, y }, depth) => ray.set(x, y, depth).unproject(camera).clone();
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    camera.updateMatrixWorld();
    const found = grabbed(under(event));
    if (!found) return;
    held = { ...found, from: found.world, to: found.world };
    controls.enabled = false;
    canvas.setPointerCapture(event.pointerId);
  }, true);
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    held.to = inSpace(under(event), held.depth);
    const v = held.to.clone().sub(held.from);
    point(arrow, held.from, v.toArray(), v.length(), 3 * bodySize);
    view.dirty = true;
  });
  canvas.addEventListener("pointerup", () => {
    if (!held) return;
    const v = held.to.clone().sub(held.from);
    if (v.length() > 0.02 * bodySize) held.run.push(held.body, held.from.toArray(), v.toArray());
    held = null;
    arrow.visible = false;
    controls.enabled = true;
    drawCurves();
  });

  const keys = {
    " ": () => setPlaying(!state.playing),
    ".": () => { setPlaying(false); advance(Math.min(...runs.map((run) => run.time + run.settings.dt))); drawCurves(); },
    r: reset,
    s: () => setSecond(runs.length < 2),
    p: nudge,
  };
  function saveTable() {
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    anchor.download = `${header.system}.csv`;
    anchor.click();
    URL.revokeObjectURL(anchor.href);
  }
  async function copyLink() {
    remember();
    try { await navigator.clipboard.writeText(location.href); $("link").textContent = "copied"; } catch { $("link").textContent = "in the address"; }
    setTimeout(() => { $("link").textContent = "link"; }, 1500);
  }
  const buttons = { second: keys.s, push: nudge, csv: saveTable, link: copyLink };
  geonhControls({ state, set, speeds: SPEEDS, keys, buttons, resize, silent: ["SELECT", "INPUT"] });
  new ResizeObserver(() => { labels(); resize(); }).observe(canvas);

  // --- begin -----------------------------------------------------------------------------------------------------
  $("title").textContent = header.title;
  for (const given of linked()) runs.push(new Side(runs.length, given));
  settings();
  apply();
  view.aim();
  told();
  let frames = 0;
  view.loop((passed, now) => {
    frames += 1;
    if (!state.playing || held) return; // time stands still while a body is held
    target = Math.min(target + passed * state.speed, Math.min(...runs.map((run) => run.time)) + 0.25 * state.speed);
    advance(target, BUDGET);
    if (now - drawn > 80) drawCurves();
  }, render);
  window.geonhPlay = {
    state, header, get runs() { return runs; }, get frames() { return frames; }, advance, reset, set, setPlaying, setSecond, csv, link, ready: true,
    change(side, given) { Object.assign(runs[side].settings, given); restart(runs[side]); settings(); },
  };
})();
