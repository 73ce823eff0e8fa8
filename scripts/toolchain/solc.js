// Command line of a native solc around npm's `solc`, as far as Brownie and forge use it:
// --version, --standard-json [-|FILE], --base-path, --include-path, --allow-paths.
// Answers are kept on disk by the hash of the request and of every file it imported,
// because the WebAssembly build is several times slower than a native compiler.
'use strict'

const crypto = require('crypto')
const fs = require('fs')
const path = require('path')

const ROOT = path.resolve(__dirname, '../..')
const PACKAGE = path.join(ROOT, 'node_modules/solc')
const VERSION_FILE = path.join(ROOT, 'node_modules/.cache/solc/version')
const CACHE = process.env.MILLPOND_SOLC_CACHE || path.join(ROOT, 'build/solc-cache')
const CACHE_ENTRIES = 64

function fail (message) {
  process.stderr.write(`solc: ${message}\n`)
  process.exit(1)
}

function loadCompiler () {
  if (!fs.existsSync(PACKAGE)) fail("the compiler is not installed: run 'make setup'")
  return require(PACKAGE)
}

function parseArguments (argv) {
  const options = { base: '', include: [], allow: [], version: false, standardJson: false, file: '-' }
  const rest = argv.flatMap(arg => arg.startsWith('--') && arg.includes('=') ? arg.split(/=(.*)/s, 2) : [arg])
  while (rest.length > 0) {
    const arg = rest.shift()
    if (arg === '--version') options.version = true
    else if (arg === '--standard-json') options.standardJson = true
    else if (arg === '--base-path') options.base = rest.shift()
    else if (arg === '--include-path') options.include.push(rest.shift())
    else if (arg === '--allow-paths') options.allow.push(...rest.shift().split(',').filter(Boolean))
    else if (arg === '-' || !arg.startsWith('-')) options.file = arg
    else fail(`option ${arg} is not supported; only --version and --standard-json are`)
  }
  return options
}

function writeAtomically (file, text) {
  fs.mkdirSync(path.dirname(file), { recursive: true })
  const temporary = `${file}.${process.pid}`
  fs.writeFileSync(temporary, text)
  fs.renameSync(temporary, file)
}

function printVersion () {
  const text = 'solc, the solidity compiler commandline interface\n' +
    `Version: ${loadCompiler().version()}\n`
  writeAtomically(VERSION_FILE, text)
  process.stdout.write(text)
}

function isInside (file, folder) {
  const relative = path.relative(folder, file)
  return relative === '' || (!relative.startsWith('..') && !path.isAbsolute(relative))
}

function sha256 (text) {
  return crypto.createHash('sha256').update(text).digest('hex')
}

function locate (name, options) {
  const roots = [options.base || process.cwd(), ...options.include].map(folder => path.resolve(folder))
  const allowed = [...roots, ...options.allow.map(folder => path.resolve(folder))]
    .filter(folder => fs.existsSync(folder)).map(folder => fs.realpathSync(folder))
  const candidates = path.isAbsolute(name) ? [name] : roots.map(folder => path.join(folder, name))
  const found = candidates.find(file => fs.existsSync(file))
  if (found === undefined) return { error: `File not found: ${name}` }
  const real = fs.realpathSync(found)
  if (!allowed.some(folder => isInside(real, folder))) {
    return { error: `File outside of allowed directories: ${name}` }
  }
  return { contents: fs.readFileSync(real, 'utf8') }
}

function fingerprint (answer) {
  return answer.error === undefined ? sha256(answer.contents) : answer.error
}

function readCache (file, options) {
  if (!fs.existsSync(file)) return undefined
  const entry = JSON.parse(fs.readFileSync(file, 'utf8'))
  const isFresh = entry.imports.every(([name, hash]) => fingerprint(locate(name, options)) === hash)
  if (!isFresh) return undefined
  fs.utimesSync(file, new Date(), new Date())
  return entry.output
}

function pruneCache () {
  const entries = fs.readdirSync(CACHE)
    .map(name => path.join(CACHE, name))
    .map(file => ({ file, used: fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.used - a.used)
  entries.slice(CACHE_ENTRIES).forEach(({ file }) => fs.rmSync(file, { force: true }))
}

function compile (input, options) {
  const request = JSON.stringify([input, options, process.cwd(), require(path.join(PACKAGE, 'package.json')).version])
  const file = path.join(CACHE, `${sha256(request)}.json`)
  const known = readCache(file, options)
  if (known !== undefined) return known
  const imports = []
  const output = loadCompiler().compile(input, {
    import: name => {
      const answer = locate(name, options)
      imports.push([name, fingerprint(answer)])
      return answer
    }
  })
  writeAtomically(file, JSON.stringify({ imports, output }))
  pruneCache()
  return output
}

function main () {
  const options = parseArguments(process.argv.slice(2))
  if (options.version) return printVersion()
  if (!options.standardJson) fail('only --version and --standard-json are supported')
  if (!fs.existsSync(PACKAGE)) fail("the compiler is not installed: run 'make setup'")
  const input = fs.readFileSync(options.file === '-' ? 0 : options.file, 'utf8')
  process.stdout.write(compile(input, options) + '\n')
}

main()
