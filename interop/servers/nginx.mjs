// HTTP and HTTPS, by nginx: the log contains the requests to two origins, and each oddity of a server is a folder.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { diff, open, openSync } from 'ztensor'
import { both, check, isRefusal, refusalOf } from './checks.mjs'
import { freePort, NotRun, nginxProgram, started } from './programs.mjs'

const HEADERS = { authorization: 'Basic headerSECRET', 'x-key': 'keySECRET' }

/** The text of a configuration: `servers` are the blocks of the servers. */
export function configuration(folder, servers, log = 'off') {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `
daemon off;
master_process off;
pid ${folder}/pid;
error_log ${folder}/error.log;
events {}
http {
  log_format asked escape=json '{"port":$server_port,"uri":"$request_uri","status":$status,"bytes":$body_bytes_sent,"range":"$http_range","headers":"$http_authorization $http_x_key","coding":"$http_accept_encoding"}';
  access_log ${log};
  ${temporary.map((name) => `${name}_temp_path ${folder}/temporary;`).join('\n  ')}
  default_type application/octet-stream;
  sendfile on;
  keepalive_requests 100000;
  ${servers.join('\n  ')}
}
`
}

/** A test authority, which signs a certificate of this machine. */
function certificates(folder) {
  const make = (...args) => {
    const { status, error, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' })
    if (error !== undefined) throw new NotRun(`nginx over HTTPS needs openssl: ${error.message}`)
    if (status !== 0) throw new Error(`openssl: ${stderr}`)
  }
  const key = (name) => ['-newkey', 'rsa:2048', '-nodes', '-days', '2', '-keyout', `${name}.key`, '-out', `${name}.pem`]
  make('req', '-x509', ...key('authority'), '-subj', '/CN=interop')
  make('req', ...key('server').filter((word) => !['-days', '2'].includes(word)), '-subj', '/CN=localhost')
  writeFileSync(join(folder, 'names'), 'subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\n')
  const signing = ['-CA', 'authority.pem', '-CAkey', 'authority.key', '-set_serial', '1', '-days', '2']
  make('x509', '-req', '-in', 'server.pem', ...signing, '-extfile', 'names', '-out', 'server.crt')
}

export async function nginx({ build, models, fixtures, names }) {
  const program = await nginxProgram(build)
  const folder = mkdtempSync(join(tmpdir(), 'ztensor-http-'))
  const files = join(folder, 'files')
  mkdirSync(join(folder, 'temporary'))
  certificates(folder)
  cpSync(fixtures, join(files, 'fixtures'), { recursive: true })
  let seconds = 1_700_000_000
  const put = (key, bytes) => {
    const path = join(files, key)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(`${path}.new`, bytes)
    // The tag of nginx is the second of the change, and the length.
    seconds += 1
    utimesSync(`${path}.new`, seconds, seconds)
    renameSync(`${path}.new`, path)
  }
  for (const key of models.keys) put(key, models.bytes(key))
  put('packed/model.zt', models.bytes('model.zt'))
  put('packed/model.zt.gz', gzipSync(models.bytes('model.zt')))
  writeFileSync(join(folder, 'passwords'), 'me:{PLAIN}rightSECRET\n')
  const [one, two, secure] = [await freePort(), await freePort(), await freePort()]
  const plain = `root ${files}; gzip on; gzip_types *; gzip_min_length 1; gzip_proxied any;`
  const log = join(folder, 'asked.log')
  const text = configuration(
    folder,
    [
      `server { listen 127.0.0.1:${one}; ${plain}
    location /private/ { alias ${files}/; auth_basic files; auth_basic_user_file ${folder}/passwords; }
    location /packed/ { gzip_static always; }
    location /whole/ { alias ${files}/; max_ranges 0; }
    location /here/ { rewrite ^/here/(.*)$ /$1 redirect; }
    location /away/ { rewrite ^/away/(.*)$ http://127.0.0.1:${two}/$1 redirect; }
    location /around/ { rewrite ^ $uri redirect; }
    location /local/ { return 302 file:///etc/passwd; }
    location /up/ { rewrite ^/up/(.*)$ https://localhost:${secure}/$1 redirect; }
  }`,
      `server { listen 127.0.0.1:${two}; ${plain} }`,
      `server { listen 127.0.0.1:${secure} ssl; ssl_certificate ${folder}/server.crt; ssl_certificate_key ${folder}/server.key; ${plain}
    location /down/ { rewrite ^/down/(.*)$ http://127.0.0.1:${one}/$1 redirect; }
  }`,
    ],
    `${log} asked`,
  )
  writeFileSync(join(folder, 'nginx.conf'), text)
  const origin = `http://127.0.0.1:${one}`
  const args = ['-p', folder, '-e', join(folder, 'error.log'), '-c', join(folder, 'nginx.conf')]
  const stop = await started(program, args, `${origin}/`)
  process.env.NODE_EXTRA_CA_CERTS = join(folder, 'authority.pem')
  const url = (key) => `${origin}/${key}`
  /** The requests since the last call. */
  let seen = 0
  const asked = () => {
    const lines = readFileSync(log, 'utf8').trim().split('\n')
    const fresh = lines.slice(seen).map((line) => JSON.parse(line))
    seen = lines.length
    return fresh
  }
  const io = (path, says, remote = {}) => [url(path), { retries: 1, ...remote }, 'ZT_IO', says]
  return {
    url,
    remote: {},
    put,
    secrets: ['SECRET'],
    refusals: {
      'no password': io('private/model.zt', /401.*headers/),
      'a wrong password': [url('private/model.zt').replace('//', '//me:wrongSECRET@'), {}, 'ZT_IO', /401.*check them/],
      'no such file': io('absent.zt', /404/),
      'a body that is packed': io('packed/model.zt', /gzip/),
      'a file that comes whole, and is too large': [
        url('whole/model.safetensors'),
        { maxWholeBytes: 2 ** 20 },
        'ZT_LIMIT',
        /maxWholeBytes/,
      ],
      'redirects without an end': io('around/model.zt', /more than 10 times/),
      'a redirect to a local file': io('local/model.zt', /"file"/),
      'a redirect from https to http': [
        `https://localhost:${secure}/down/model.zt`,
        {},
        'ZT_IO',
        /from https: to http:/,
      ],
      'a certificate for another name': [
        `https://127.0.0.1:${secure}/model.zt`,
        {},
        'ZT_IO',
        /certificate of 127\.0\.0\.1 is not trusted \(NotValidForName/,
      ],
    },
    more: (setup) => ({
      'an index is two requests at most, rows one more': () => countsRequests(setup, asked),
      'a password': () =>
        both(
          { ...setup, urlOf: (key) => url(`private/${key}`).replace('//', '//me:rightSECRET@') },
          'model.zt',
          verifies,
        ),
      'a file that comes whole': () => both({ ...setup, urlOf: (key) => url(`whole/${key}`) }, 'model.zt', verifies),
      'over HTTPS, by an authority of NODE_EXTRA_CA_CERTS': () =>
        both({ ...setup, urlOf: (key) => `https://localhost:${secure}/${key}` }, 'model.zt', verifies),
      'a certificate without a known authority': async () => {
        const { NODE_EXTRA_CA_CERTS } = process.env
        delete process.env.NODE_EXTRA_CA_CERTS
        const refused = await refusalOf(() => open(`https://localhost:${secure}/model.zt`))
        process.env.NODE_EXTRA_CA_CERTS = NODE_EXTRA_CA_CERTS
        isRefusal(refused, 'ZT_IO', /certificate of localhost is not trusted.*NODE_EXTRA_CA_CERTS/)
      },
      'a redirect from HTTP to HTTPS': () => both({ ...setup, urlOf: (key) => url(`up/${key}`) }, 'model.zt', verifies),
      'headers stay with the first of two origins': () => headersStay(setup, asked, [one, two]),
      'no request accepts a compressed body': async () => {
        check(
          asked().every(({ coding }) => ['', 'identity'].includes(coding)),
          'Accept-Encoding is another',
        )
      },
      ...Object.fromEntries(
        names.map((name) => [name, () => sameFixture(url(`fixtures/${name}`), join(fixtures, name))]),
      ),
    }),
    async stop() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function verifies(remoteFile, localFile) {
  const { ok } = await remoteFile.verify()
  check(ok && remoteFile.size === localFile.size, 'other tensors')
}

async function countsRequests(setup, asked) {
  asked()
  await both(setup, 'model.safetensors', async (remoteFile) => {
    const opening = asked().length
    check(opening <= 2, `${opening} requests to open`)
    const rows = await remoteFile.tensor('embed').load({ slice: [[1000, 1128]] })
    const reading = asked()
    const bytes = reading.reduce((sum, one) => sum + one.bytes, 0)
    check(reading.length === 1 && bytes < rows.byteLength * 1.1, `${reading.length} requests, ${bytes} bytes`)
  })
}

/** No request to the second origin has them, also if several are concurrent. */
async function headersStay(setup, asked, [one, two]) {
  asked()
  const remote = { headers: HEADERS, pieceBytes: 2 ** 20 }
  await both(
    { ...setup, remote, urlOf: (key) => setup.server.url(`away/${key}`) },
    'model.safetensors',
    async (remoteFile, localFile) => {
      const { changed } = await diff(remoteFile, localFile)
      check(changed.length === 0, 'tensors differ')
    },
  )
  const requests = asked()
  const [first, second] = [one, two].map((port) => requests.filter((request) => request.port === port))
  check(second.length > 1 && second.every(({ headers }) => headers === ' '), 'the second origin sees headers')
  check(
    first.length > 0 && first.every(({ headers }) => headers === Object.values(HEADERS).join(' ')),
    'the first does not',
  )
  await both({ ...setup, remote, urlOf: (key) => setup.server.url(`here/${key}`) }, 'model.safetensors', (remoteFile) =>
    remoteFile.load(),
  )
  check(
    asked().every(({ headers }) => headers === Object.values(HEADERS).join(' ')),
    'the first origin does not see headers where it redirects to itself',
  )
}

async function sameFixture(url, path) {
  const [remoteFile, localFile] = [await open(url), openSync(path)]
  try {
    const { added, removed, changed, unchanged } = await diff(remoteFile, localFile)
    const others = added.length + removed.length + changed.length
    const [there, here] = [await remoteFile.verify(), await localFile.verify()]
    check(others === 0 && unchanged === localFile.size && there.ok === here.ok, `${others} of its tensors differ`)
  } finally {
    remoteFile.close()
    localFile.close()
  }
}
