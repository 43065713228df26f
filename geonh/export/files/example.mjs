// node example.mjs 1000
import { Robot } from "./robot.js";

const run = new Robot().advance(Number(process.argv[2] ?? 100));
for (const value of run.observed()) console.log(value);
process.exitCode = run.status;
