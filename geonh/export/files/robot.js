// robot: {{system}} with {{method}}, by geonh {{version}}. A module of {{size}} kB of WebAssembly:
//
//   import { Robot } from "./robot.js";
//   const run = new Robot({ {{example}} }).advance(1000);
//   console.log(run.observe().energy, run.status);

const DATA = {{data}};
const CODE = "{{code}}";

// One run. Parameters by name, those left out by default; of the start: times [t0, dt], point, velocity, inputs.
class Robot {
  constructor(parameters = {}, { times, point, velocity, inputs } = {}) {
    const { exports } = new WebAssembly.Instance(Robot.module, { env: Math_ });
    this.exports = exports;
    const sizes = { parameters: DATA.parameters.length, inputs: DATA.inputs.length, times: 2, point: DATA.point.length,
      velocity: DATA.velocity.length, state: DATA.state, observed: DATA.observed.length };
    let at = exports.heap.value;
    const last = at + 8 * Object.values(sizes).reduce((a, b) => a + b, DATA.point.length + DATA.velocity.length);
    const missing = Math.ceil((last - exports.memory.buffer.byteLength) / 65536);
    if (missing > 0) exports.memory.grow(missing);
    this.vectors = {};
    for (const [name, size] of [...Object.entries(sizes), ["projected", sizes.point + sizes.velocity]]) {
      this.vectors[name] = new Float64Array(exports.memory.buffer, at, size);
      at += 8 * size;
    }
    for (const name of ["parameters", "inputs", "times", "point", "velocity"]) this.vectors[name].set(DATA.defaults[name]);
    this.start(parameters, { times, point, velocity, inputs });
  }

  // Start anew: with other parameters, by name, and another start; what is left out stays.
  start(parameters = {}, start = {}) {
    this.setParameters(parameters);
    for (const name of ["times", "point", "velocity", "inputs"])
      if (start[name] !== undefined) this.set(name, start[name]);
    this.status = this.call("start", "parameters", "inputs", "times", "point", "velocity", "state");
    return this;
  }

  // Do n steps; where one fails, the state is the one before it, and status and message tell why.
  advance(n = 1) {
    if (this.status === 0) this.status = this.call("advance", "parameters", "inputs", "state", n);
    return this;
  }

  // Time, point, velocity, momentum, energy, multipliers, residuals and first integrals, by name.
  observe() {
    const values = this.observed();
    return Object.fromEntries(DATA.observed.map(({ name }, i) => [name, values[i]]));
  }

  // The same as a Float64Array, in the order of Robot.data.observed, overwritten by the next call.
  observed() {
    this.call("observe", "parameters", "inputs", "state", "observed");
    return this.vectors.observed;
  }

  // The nearest point and velocity on the constraints, for a start.
  project(point, velocity) {
    this.set("point", point);
    this.set("velocity", velocity);
    const status = this.call("project", "parameters", "times", "point", "velocity", "projected");
    const found = Array.from(this.vectors.projected);
    return { status, point: found.slice(0, DATA.point.length), velocity: found.slice(DATA.point.length) };
  }

  get message() {
    return DATA.statuses[this.status] || "";
  }

  setParameters(values) {
    for (const [name, value] of Object.entries(values)) {
      const place = DATA.parameters.findIndex((parameter) => parameter.name === name);
      if (place < 0) {
        const names = DATA.parameters.map((parameter) => parameter.name).join(", ");
        throw new Error(`robot has no parameter ${name}; it has ${names || "none"}`);
      }
      this.vectors.parameters[place] = value;
    }
  }

  set(name, values) {
    const vector = this.vectors[name];
    if (values.length !== vector.length) throw new Error(`${name} has ${vector.length} numbers, got ${values.length}`);
    vector.set(values);
  }

  call(name, ...vectors) {
    const addresses = vectors.map((v) => (typeof v === "number" ? v : this.vectors[v].byteOffset));
    return this.exports[`robot_${name}`](...addresses);
  }
}

const Math_ = { fmod: (x, y) => x % y, exp2: (x) => 2 ** x };
for (const name of {{imports}}) Math_[name] ??= Math[name];
Robot.data = DATA;
Robot.module = await WebAssembly.compile(Uint8Array.from(atob(CODE), (c) => c.charCodeAt(0)));

export { Robot };
