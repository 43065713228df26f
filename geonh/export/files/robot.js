// robot: {{system}} with {{method}}, by geonh {{version}}. A module of {{size}} kB of WebAssembly:
//
//   import { Robot } from "./robot.js";
//   const run = new Robot({ {{example}} }).advance(1000);
//   console.log(run.observe().energy, run.status);
//
// Parameters by name, those left out by default; a second argument has of the start times [t0, dt], point, velocity,
// inputs.

{{run}}
export const Robot = await geonhModel("robot", {{data}}, "{{code}}");
