/** Class of a run of a model of this name, of its data and its module of WebAssembly in base64. */
async function geonhModel(name, data, code) {
  const module = await WebAssembly.compile(Uint8Array.from(atob(code), (c) => c.charCodeAt(0)));
  const MOST = 2 ** 30; // steps of one call
  const env = { fmod: (x, y) => x % y, exp2: (x) => 2 ** x };
  for (const { name: called } of WebAssembly.Module.imports(module)) env[called] ??= Math[called];

  // One run. Parameters by name, those left out by default; of the start: times [t0, dt], point, velocity, inputs.
  return class Run {
    static data = data;
    constructor(parameters = {}, start = {}) {
      const { exports } = new WebAssembly.Instance(module, { env });
      this.exports = exports;
      let at = exports.heap.value;
      const last = at + 8 * Object.values(data.sizes).reduce((a, b) => a + b);
      const missing = Math.ceil((last - exports.memory.buffer.byteLength) / 65536);
      if (missing > 0) exports.memory.grow(missing);
      this.vectors = {};
      for (const [name, size] of Object.entries(data.sizes)) {
        this.vectors[name] = new Float64Array(exports.memory.buffer, at, size);
        at += 8 * size;
      }
      for (const name of ["parameters", "inputs", "times", "point", "velocity"]) this.vectors[name].set(data.defaults[name]);
      this.start(parameters, start);
    }

    // Start anew: with other parameters, by name, and another start; what is left out stays.
    start(parameters = {}, start = {}) {
      const names = ["times", "point", "velocity", "inputs"];
      const given = Object.entries(start).filter(([, values]) => values !== undefined);
      for (const [name, values] of given) {
        if (!names.includes(name)) throw new Error(`a start has ${names.join(", ")}, got ${name}`);
        this.check(name, values);
      }
      this.setParameters(parameters);
      for (const [name, values] of given) this.vectors[name].set(values);
      this.status = this.call("start", "parameters", "inputs", "times", "point", "velocity", "state");
      return this;
    }

    // Do n steps; where one fails, the state is the one before it, and status and message tell why.
    advance(n = 1) {
      if (!Number.isSafeInteger(n) || n < 0) throw new Error(`n must be a whole number, not negative, got ${n}`);
      for (let left = n; left > 0 && this.status === 0; left -= MOST)
        this.status = this.call("advance", "parameters", "inputs", "state", Math.min(left, MOST));
      return this;
    }

    // Time, point, velocity, momentum, energy, multipliers, residuals and first integrals, by name.
    observe() {
      const values = this.observed();
      return Object.fromEntries(data.observed.map(({ name }, i) => [name, values[i]]));
    }

    // The same as a Float64Array, in the order of data.observed, overwritten by the next call.
    observed() {
      this.call("observe", "parameters", "inputs", "state", "observed");
      return this.vectors.observed;
    }

    // The nearest point and velocity on the constraints, for a start.
    project(point, velocity) {
      this.check("point", point);
      this.check("velocity", velocity);
      const { point: x, velocity: xi } = this.vectors, start = [x.slice(), xi.slice()];
      x.set(point);
      xi.set(velocity);
      const status = this.call("project", "parameters", "times", "point", "velocity", "projected");
      x.set(start[0]);
      xi.set(start[1]);
      const found = Array.from(this.vectors.projected);
      return { status, point: found.slice(0, data.point.length), velocity: found.slice(data.point.length) };
    }

    get message() {
      return data.statuses[this.status] || "";
    }

    setParameters(values) {
      const places = Object.entries(values).map(([key, value]) => {
        const place = data.parameters.findIndex((parameter) => parameter.name === key);
        if (place < 0) {
          const names = data.parameters.map((parameter) => parameter.name).join(", ");
          throw new Error(`${name} has no parameter ${key}; it has ${names || "none"}`);
        }
        if (!Number.isFinite(value)) throw new Error(`${key} must be a finite number, got ${value}`);
        return [place, value];
      });
      for (const [place, value] of places) this.vectors.parameters[place] = value;
    }

    set(name, values) {
      this.check(name, values);
      this.vectors[name].set(values);
    }

    check(name, values) {
      const size = this.vectors[name].length;
      if (values.length !== size) throw new Error(`${name} has ${size} numbers, got ${values.length}`);
      const isGiven = name !== "state"; // a state may have places that are not numbers
      if (isGiven && !Array.prototype.every.call(values, Number.isFinite)) throw new Error(`${name} must be finite numbers, got ${values}`);
    }

    call(called, ...vectors) {
      const addresses = vectors.map((v) => (typeof v === "number" ? v : this.vectors[v].byteOffset));
      return this.exports[`${name}_${called}`](...addresses);
    }
  };
}
