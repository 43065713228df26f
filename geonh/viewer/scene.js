"use strict";
// Bodies and arrows in three.js, and what a page holds compressed: for the viewer, and for pages in which a run is computed.

/** Bytes of an element of the page: base64 of deflate. */
async function geonhUnpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** Array of a block of bytes. */
function geonhArray(buffer, a) {
  const KINDS = { f4: Float32Array, i2: Int16Array, u2: Uint16Array, u1: Uint8Array };
  return new KINDS[a.kind](buffer, a.at, a.n);
}

/** Scene with its lights, a renderer, and a camera that the mouse turns; T is three.js. */
function geonhScene(T, canvas, size) {
  const renderer = new T.WebGLRenderer({ canvas, antialias: true, preserveDrawingBuffer: true });
  renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
  renderer.setScissorTest(true);
  const scene = new T.Scene();
  const sky = new T.HemisphereLight(0xffffff, 0x8a8a90, 2.2);
  sky.position.set(0, 0, 1);
  scene.add(sky);
  const camera = new T.PerspectiveCamera(40, 1, size / 500, size * 40);
  camera.up.set(0, 0, 1);
  const lamp = new T.DirectionalLight(0xffffff, 1.6);
  lamp.position.set(-0.4, 0.8, 1.2);
  camera.add(lamp);
  scene.add(camera);
  return { renderer, scene, camera, controls: new T.OrbitControls(camera, canvas) };
}

/** Radius of the largest body about its origin; 0 if there is only ground. */
function geonhBodySize(bodies, array) {
  let far = 0;
  for (const body of bodies) for (const part of body.ground ? [] : body.parts) {
    const v = array(part.vertices);
    for (let i = 0; i < v.length; i += 3) far = Math.max(far, Math.hypot(v[i], v[i + 1], v[i + 2]));
  }
  return far;
}

/** True if a body would be a dot in a view of the whole motion, so that the camera follows it. */
const geonhIsSmall = (bodySize, size) => bodySize > 0 && size > 24 * bodySize;

/** Meshes of parts and arrows; inks and grounds are materials whose colours go with the theme. */
function geonhMeshes(T, array) {
  const inks = []; // materials of lines, whose colour goes with the theme
  const grounds = [];
  function mesh(part, body, tint) { // a tint is the colour of a run among several
    const group = new T.Group();
    const vertices = array(part.vertices), faces = array(part.faces), dark = array(part.dark), lines = array(part.lines);
    const colour = new T.Color(part.colour || (tint && !body.ground ? tint : body.colour));
    if (faces.length) {
      let shape = new T.BufferGeometry();
      shape.setAttribute("position", new T.BufferAttribute(vertices, 3));
      shape.setIndex(new T.BufferAttribute(faces, 1));
      if (part.smooth) shape.computeVertexNormals();
      shape = shape.toNonIndexed();
      if (!part.smooth) shape.computeVertexNormals();
      const colours = new Float32Array(faces.length * 3), shade = colour.clone().multiplyScalar(0.55);
      if (dark.some(Boolean)) colour.lerp(new T.Color("#ffffff"), 0.5);
      for (let i = 0; i < dark.length; i++) {
        const c = dark[i] ? shade : colour;
        for (let k = 0; k < 3; k++) c.toArray(colours, 9 * i + 3 * k);
      }
      shape.setAttribute("color", new T.BufferAttribute(colours, 3));
      const faint = body.ground || tint, curved = body.ground && part.smooth; // faces of that are seen from the free side
      const material = new (body.ground && !curved ? T.MeshBasicMaterial : T.MeshLambertMaterial)({
        vertexColors: !body.ground, ...(curved ? {} : { side: T.DoubleSide }), transparent: Boolean(faint), opacity: body.ground ? 0.35 : tint ? 0.85 : 1,
        polygonOffset: true, polygonOffsetFactor: body.ground ? 2 : 1, polygonOffsetUnits: body.ground ? 8 : 1,
        depthWrite: !body.ground,
      });
      const made = new T.Mesh(shape, material);
      if (body.ground) { made.renderOrder = -1; if (curved) inks.push([material, true]); else grounds.push(material); }
      group.add(made);
    }
    if (lines.length) {
      const shape = new T.BufferGeometry();
      shape.setAttribute("position", new T.BufferAttribute(lines, 3));
      const bare = !faces.length;
      const material = new T.LineBasicMaterial({ color: colour, transparent: true, opacity: body.ground ? 0.55 : bare ? 1 : 0.6 });
      if (!part.colour && (body.ground || !bare)) inks.push([material, body.ground]);
      group.add(new T.LineSegments(shape, material));
    }
    return group;
  }

  function arrowOf(colour) {
    const group = new T.Group(), material = new T.MeshLambertMaterial({ color: colour, emissive: colour, emissiveIntensity: 0.25 });
    const shaft = new T.Mesh(new T.CylinderGeometry(1, 1, 1, 12).translate(0, 0.5, 0), material);
    const head = new T.Mesh(new T.ConeGeometry(1, 1, 16).translate(0, -0.5, 0), material);
    group.add(shaft, head);
    group.userData = { shaft, head };
    return group;
  }
  const up = new T.Vector3(0, 1, 0), direction = new T.Vector3();
  function point(arrow, from, v, length, reach) { // of at most the length reach
    arrow.visible = length > 1e-6 * reach;
    if (!arrow.visible) return;
    const { shaft, head } = arrow.userData, r = 0.012 * reach, tip = Math.min(6 * r, 0.5 * length);
    direction.set(...v).normalize();
    arrow.position.copy(from);
    arrow.quaternion.setFromUnitVectors(up, direction);
    shaft.scale.set(r, length - 0.9 * tip, r);
    head.scale.set(0.45 * tip, tip, 0.45 * tip);
    head.position.y = length;
  }
  return { inks, grounds, mesh, arrowOf, point };
}
