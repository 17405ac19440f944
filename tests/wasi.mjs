// Runs a WASI program: node --no-warnings tests/wasi.mjs PROGRAM.wasm [ARGS]. CHECK_* variables reach it.
import fs from 'node:fs';
import { WASI } from 'node:wasi';

const wasi = new WASI({ version: 'preview1', args: process.argv.slice(2), env: process.env, preopens: { '.': '.' }, returnOnExit: true });
const program = await WebAssembly.compile(fs.readFileSync(process.argv[2]));
process.exitCode = wasi.start(await WebAssembly.instantiate(program, wasi.getImportObject()));
