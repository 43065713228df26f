"use strict";
// Curves against time: figures with their keys, axes and lines, for pages of runs and pages in which a run is computed.
const GEONH_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777"];
const GEONH_DASHES = [[], [6, 3], [8, 3, 2, 3], [2, 2], [8, 3, 2, 3, 2, 3], [12, 3]];
const GEONH_LEFT = 56, GEONH_RIGHT = 6; // margins of a figure

const geonhColour = (i) => GEONH_COLOURS[i % GEONH_COLOURS.length];
const geonhDash = (i) => GEONH_DASHES[i % GEONH_DASHES.length];
const geonhCss = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Empty figure in a host, with its title: { canvas, keys }. */
function geonhFigure(host, title, unit) {
  const figure = document.createElement("figure"), caption = document.createElement("figcaption");
  const keys = document.createElement("div"), canvas = document.createElement("canvas");
  caption.textContent = unit ? `${title} (${unit})` : title;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${title} against time`);
  keys.className = "keys";
  figure.append(caption, keys, canvas);
  host.append(figure);
  return { canvas, keys };
}

/** Name of a curve behind a piece of its line. */
function geonhKey(name, stroke, dash) {
  const span = document.createElement("span");
  span.innerHTML = `<svg width="24" height="4" aria-hidden="true"><line y1="2" x2="24" y2="2" stroke-width="2.5"/></svg>`;
  const line = span.querySelector("line");
  line.setAttribute("stroke", stroke);
  line.setAttribute("stroke-dasharray", dash.join(" "));
  span.append(name);
  return span;
}

/** Round step that divides a span into about so many parts. */
function geonhStep(span, count) {
  const raw = span / count, unit = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * unit).find((step) => step >= raw);
}

/** Ends of the axis of values: whole powers of ten, or as wide that a constant shows no more than three digits. */
function geonhRange(curves, log) {
  let least = Infinity, most = -Infinity;
  for (const { y } of curves) for (const v of y) if (isFinite(v)) { least = Math.min(least, v); most = Math.max(most, v); }
  if (!isFinite(least)) [least, most] = [0, 1];
  if (log) {
    least = Math.floor(Math.max(least, -17));
    return [least, Math.max(Math.ceil(most), least + 1)];
  }
  const space = Math.max(most - least, 1e-3 * Math.max(Math.abs(most), Math.abs(least)), 1e-12), mean = (most + least) / 2;
  return [mean - 0.56 * space, mean + 0.56 * space];
}

/**
 * Draw curves { t, y, colour, dash } on a canvas of w × h pixels of the page; y may be logarithms. From the times in
 * `shades` on the figure is shaded. Returns the place of a time: t ↦ x.
 */
function geonhDraw(canvas, w, h, { curves, log, begin, end, second, shades = [] }) {
  const ratio = devicePixelRatio, g = canvas.getContext("2d"), span = (end - begin) || 1;
  const bottom = h - 16, width = w - GEONH_LEFT - GEONH_RIGHT, [least, most] = geonhRange(curves, log);
  const px = (t) => GEONH_LEFT + (width * (t - begin)) / span;
  const py = (v) => bottom - ((bottom - 6) * (v - least)) / (most - least);
  const superscript = (n) => "10" + String(n).replace("-", "⁻").replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
  canvas.width = w * ratio;
  canvas.height = h * ratio;
  g.scale(ratio, ratio);
  g.font = "11px system-ui, sans-serif";
  g.fillStyle = geonhCss("--soft");
  g.strokeStyle = geonhCss("--line");
  g.textAlign = "right";
  g.textBaseline = "middle";
  const step = log ? Math.max(1, Math.ceil((most - least) / 5)) : geonhStep(most - least, 5);
  const decimals = Math.max(0, -Math.floor(Math.log10(step)));
  for (let v = Math.ceil(least / step) * step; v <= most + 1e-9 * step; v += step) {
    g.beginPath(); g.moveTo(GEONH_LEFT, py(v)); g.lineTo(w - GEONH_RIGHT, py(v)); g.stroke();
    const text = log ? superscript(Math.round(v)) : Math.abs(v) < 1e-9 * step ? "0" : decimals > 5 ? v.toExponential(2) : v.toFixed(decimals);
    g.fillText(text, GEONH_LEFT - 5, py(v));
  }
  const tick = geonhStep(span, 5), places = Math.max(0, -Math.floor(Math.log10(tick)));
  g.textAlign = "center";
  g.textBaseline = "top";
  for (let v = Math.ceil(begin / tick) * tick; v <= end + 1e-9; v += tick)
    g.fillText(v.toFixed(places) + (v + tick > end ? ` ${second}` : ""), Math.min(px(v), w - 18), bottom + 3);
  g.fillStyle = "rgba(204, 51, 17, 0.14)";
  for (const t of shades) g.fillRect(px(t), 6, w - GEONH_RIGHT - px(t), bottom - 6);
  g.save();
  g.beginPath(); g.rect(GEONH_LEFT, 2, width + 1, bottom); g.clip();
  g.lineWidth = 1.6;
  for (const { t, y, colour, dash } of curves) {
    g.strokeStyle = colour;
    g.setLineDash(dash);
    g.beginPath();
    for (let i = 0, pen = false; i < y.length; i++) {
      if (isFinite(y[i])) g[pen ? "lineTo" : "moveTo"](px(t[i]), py(y[i]));
      pen = isFinite(y[i]);
    }
    g.stroke();
  }
  g.restore();
  return px;
}
