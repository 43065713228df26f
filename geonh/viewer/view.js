"use strict";
// What pages of runs, and pages in which a run is computed, have in common: how they open, camera, cells, theme, keys.
const geonhElement = (id) => document.getElementById(id);

/** Show a message under the title; none if the text is empty. */
function geonhWarn(text) {
  geonhElement("warning").textContent = text;
  geonhElement("warning").hidden = !text;
}

/** Arrays of the page, and three.js. */
async function geonhOpened() {
  const buffer = await geonhUnpacked("data");
  (0, eval)(new TextDecoder().decode(await geonhUnpacked("three")) + ";globalThis.THREE = THREE;");
  return { array: (a) => geonhArray(buffer, a), T: globalThis.THREE };
}

/** Runs in three dimensions, in cells side by side or one above the other. */
class GeonhView {
  /**
   * `low`, `high`: corners of the box of all that moves, of diagonal `size`; `near`: width that is seen when the camera
   * follows `anchor()`; `cells()`: their number; `state`: the page's, with the camera's name and `dark`. Throws where
   * there is no WebGL.
   */
  constructor(T, canvas, array, { low, high, size, near, cells, anchor, state }) {
    Object.assign(this, { T, canvas, low, high, size, near, cells, anchor, state, dirty: true, followed: new T.Vector3() });
    Object.assign(this, geonhScene(T, canvas, size), geonhMeshes(T, array));
    this.controls.addEventListener("change", () => { this.dirty = true; });
  }

  /** Width and height of a cell. */
  cell() {
    const w = this.canvas.clientWidth || 1, h = this.canvas.clientHeight || 1, n = this.cells();
    return w >= h ? [w / n, h] : [w, h / n];
  }

  get isAcross() {
    return this.cell()[0] < this.canvas.clientWidth - 1;
  }

  /** Put the camera where its name says, so that the followed body, or every corner of the box, is seen. */
  aim() {
    const { T, camera, controls, low, high, state, size } = this, follows = state.camera === "follow";
    const target = follows ? this.anchor().clone() : new T.Vector3(...low.map((v, i) => (v + high[i]) / 2));
    const [w, h] = this.cell(), slope = Math.tan(camera.fov * Math.PI / 360);
    const from = new T.Vector3(...(state.camera === "top" ? [0, -1e-3, 1] : [-0.42, -0.78, 0.5])).normalize();
    let distance = follows ? this.near / 2 / slope / Math.min(1, w / h) : 0;
    if (!follows) {
      const right = new T.Vector3(0, 0, 1).cross(from).normalize(), above = from.clone().cross(right), corner = new T.Vector3();
      for (let k = 0; k < 8; k++) {
        corner.set(...[0, 1, 2].map((i) => ((k >> i) & 1 ? high[i] : low[i]))).sub(target);
        const aside = Math.max(Math.abs(corner.dot(right)) * h / w, Math.abs(corner.dot(above)));
        distance = Math.max(distance, corner.dot(from) + 1.1 * aside / slope);
      }
    }
    controls.target.copy(target);
    camera.near = Math.min(size / 500, distance / 50);
    camera.position.copy(from).multiplyScalar(distance).add(target);
    this.followed.copy(target);
    controls.update();
    this.dirty = true;
  }

  /** Draw the cells; `prepare(k, width, height)` shows in the scene what the k-th one has. False if there is no room. */
  render(prepare) {
    const { camera, controls, renderer, canvas, followed } = this;
    if (this.state.camera === "follow") {
      const now = this.anchor();
      camera.position.add(now).sub(followed);
      controls.target.add(now).sub(followed);
      followed.copy(now);
      controls.update();
    }
    const h = canvas.clientHeight, [cw, ch] = this.cell(), across = this.isAcross;
    if (!canvas.clientWidth || !h) return false;
    camera.aspect = cw / ch;
    camera.updateProjectionMatrix();
    for (let k = 0; k < this.cells(); k++) {
      prepare(k, cw, ch);
      const place = [across ? k * cw : 0, across ? 0 : h - (k + 1) * ch, cw, ch];
      renderer.setViewport(...place);
      renderer.setScissor(...place);
      renderer.render(this.scene, camera);
    }
    return true;
  }

  /** Names of the cells, { text, colour } each. */
  label(names) {
    const across = this.isAcross;
    geonhElement("labels").replaceChildren(...names.map(({ text, colour }, k) => {
      const span = document.createElement("span");
      span.textContent = text;
      if (colour) span.style.borderBottom = `3px solid ${colour}`;
      span.style.left = across ? `${(100 * (k + 0.5)) / names.length}%` : "50%";
      if (!across) span.style.bottom = `${(100 * (names.length - 1 - k)) / names.length + 1}%`;
      return span;
    }));
  }

  /** Show what of the state all pages have: theme, speed, camera. */
  apply() {
    const { T, state, inks, grounds } = this;
    document.documentElement.dataset.theme = state.dark ? "dark" : "light";
    geonhElement("speed").value = state.speed;
    geonhElement("camera").value = state.camera;
    this.scene.background = new T.Color(geonhCss("--back"));
    for (const [material, isGround] of inks) material.color.set(isGround ? geonhCss("--soft") : state.dark ? "#0b0d10" : "#1a1d21");
    for (const material of grounds) material.color.set(geonhCss("--panel"));
  }

  resize() {
    this.renderer.setSize(this.canvas.clientWidth || 1, this.canvas.clientHeight || 1, false);
    this.dirty = true;
  }

  /** Draw frames for good: `advance(seconds, now)` before each, `render()` where something has changed. */
  loop(advance, render) {
    let last = performance.now();
    const tick = (now) => {
      advance(Math.min(0.1, (now - last) / 1000), now);
      last = now;
      if (this.dirty) { this.dirty = false; render(); }
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }
}

/** Names of the cameras, in the order of the page. */
const geonhCameras = () => [...geonhElement("camera").options].map((option) => option.value);

/** Show whether a run plays. */
function geonhPlaying(on, [stop, start]) {
  geonhElement("play").textContent = on ? "❚❚" : "▶";
  geonhElement("play").setAttribute("aria-label", on ? stop : start);
}

/**
 * Keys, buttons and menus: those that all pages have, and `keys` and `buttons` (by their ids) of one. Keys pressed in
 * elements of the kinds `silent` are left to these.
 */
function geonhControls({ state, set, speeds, keys, buttons, resize, silent }) {
  const $ = geonhElement, cameras = geonhCameras();
  const speed = (by) => set("speed", speeds[Math.min(speeds.length - 1, Math.max(0, speeds.indexOf(state.speed) + by))]);
  const all = {
    "[": () => speed(-1),
    "]": () => speed(1),
    c: () => set("camera", cameras[(cameras.indexOf(state.camera) + 1) % cameras.length]),
    t: () => set("traces", !state.traces),
    d: () => set("dark", !state.dark),
    "?": () => {
      $("keys").hidden = !$("keys").hidden;
      $("help").setAttribute("aria-expanded", !$("keys").hidden);
      resize();
    },
    ...keys,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || silent.includes(event.target.tagName) && event.target.type !== "range")
      return;
    if (event.key === " " && ["BUTTON", "SUMMARY"].includes(event.target.tagName)) return; // the element's own
    if (event.key === "Escape" && !$("keys").hidden) return all["?"]();
    const key = all[event.key] || all[event.key.toLowerCase()];
    if (!key) return;
    event.preventDefault();
    key(event);
  });
  $("speed").append(...speeds.map((s) => new Option(`× ${s}`, s)));
  $("speed").addEventListener("change", (event) => set("speed", Number(event.target.value)));
  $("camera").addEventListener("change", (event) => set("camera", event.target.value));
  const pressed = { play: all[" "], reset: all.r, traces: all.t, theme: all.d, help: all["?"], ...buttons };
  for (const [id, act] of Object.entries(pressed)) $(id).addEventListener("click", (event) => {
    act();
    if (event.detail) $(id).blur(); // after a click the space bar is that of the page again
  });
}
