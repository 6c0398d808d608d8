// The responses and rejections of the server of a report.
import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import test from 'ava'
import { open } from 'ztensor'
import { serveReport } from 'ztensor/report'
import { numbersOf } from '../helpers/bytes.mjs'
import { ended, safetensors, start, write } from '../helpers/command.mjs'
import { dataOf, policyOf } from '../helpers/report-page.mjs'

const MODEL = 'examples/model.safetensors'

/** Sends exactly these headers: fetch would set Host and Origin itself. */
function ask(url, { method = 'GET', headers = {}, path } = {}) {
  const { hostname, port, pathname, search } = new URL(url)
  return new Promise((resolve, reject) => {
    const sent = request(
      { hostname, port, method, headers, agent: false, path: path ?? `${pathname}${search}` },
      (response) => {
        const chunks = []
        response.on('data', (chunk) => chunks.push(chunk))
        response.on('end', () => {
          resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks).toString() })
        })
      },
    )
    sent.on('error', reject)
    sent.end()
  })
}

async function served(t, source = MODEL, options = {}) {
  const server = await serveReport(source, options)
  t.teardown(() => server.close())
  return server
}

test('serves the page of the report, live and without values', async (t) => {
  const { url, port } = await served(t)
  t.regex(url, new RegExp(`^http://127\\.0\\.0\\.1:${port}/[A-Za-z0-9_-]{24}/$`))
  const { status, headers, body } = await ask(url)
  t.is(status, 200)
  t.is(headers['content-type'], 'text/html; charset=utf-8')
  t.is(policyOf(body).get('connect-src'), "'self'")
  t.regex(headers['content-security-policy'], /default-src 'none'.*frame-ancestors 'none'/)
  t.like(headers, {
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  const data = dataOf(body)
  t.true(data.live)
  t.false('found' in data)
})

test('with a filter, a request names a tensor of the report', async (t) => {
  const path = write('three.safetensors', safetensors({ a: ['F32', [1], Float32Array.of(1)], b: ['F32', [2, 1], Float32Array.of(2, 3)], c: ['F32', [1], Float32Array.of(4)] })) // biome-ignore format: one file
  const { url } = await served(t, path, { filter: '!a' })
  const { names } = dataOf((await ask(url)).body).tensors
  t.deepEqual(names, ['b', 'c'])
  for (const [at, max] of [3, 4].entries()) {
    const { body } = await ask(new URL(`stats?tensor=${at}`, url))
    t.is(JSON.parse(body).max, max, names[at])
  }
  const { body } = await ask(new URL('slice?tensor=0', url))
  t.deepEqual(JSON.parse(body).of, [2, 1])
  t.is((await ask(new URL('stats?tensor=2', url))).status, 404)
})

test('each server has a separate token', async (t) => {
  const [one, other] = [await served(t), await served(t)]
  t.not(new URL(one.url).pathname, new URL(other.url).pathname)
})

const FORBIDDEN = {
  'a name that leads here by DNS rebinding': { Host: 'rebound.example' },
  'that name with the right port': (port) => ({ Host: `rebound.example:${port}` }),
  'another address': (port) => ({ Host: `10.0.0.1:${port}` }),
  'another port': (port) => ({ Host: `127.0.0.1:${port - 1}` }),
  'a name in front of an at sign': (port) => ({ Host: `127.0.0.1:${port}@rebound.example` }),
  'a name with an at sign': (port) => ({ Host: `x@127.0.0.1:${port}` }),
  'another origin': { Origin: 'https://rebound.example' },
  'an origin that is null': { Origin: 'null' },
  'the origin of another port': (port) => ({ Origin: `http://127.0.0.1:${port + 1}` }),
  'the origin by https': (port) => ({ Origin: `https://127.0.0.1:${port}` }),
  'a script of another site': { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'no-cors' },
  'a script of the same site': { 'Sec-Fetch-Site': 'same-site', 'Sec-Fetch-Mode': 'cors' },
}

for (const [title, given] of Object.entries(FORBIDDEN)) {
  test(`rejects ${title}`, async (t) => {
    const { url, port } = await served(t)
    const headers = typeof given === 'function' ? given(port) : given
    for (const path of ['', 'stats?tensor=0', 'slice?tensor=0']) {
      const { status, body } = await ask(new URL(path, url), { headers })
      t.is(status, 403)
      t.notRegex(body, /names|min/)
    }
  })
}

test('rejects a request without Host', async (t) => {
  const { url, port } = await served(t)
  const socket = connect(port, '127.0.0.1')
  socket.end(`GET ${new URL(url).pathname} HTTP/1.0\r\n\r\n`)
  let answer = ''
  socket.setEncoding('utf8').on('data', (text) => {
    answer += text
  })
  await once(socket, 'close')
  t.regex(answer, /^HTTP\/1\.1 403 /)
})

test('accepts its origin, and its other name', async (t) => {
  const { url, port } = await served(t)
  const stats = new URL('stats?tensor=0', url)
  for (const headers of [
    { Origin: `http://127.0.0.1:${port}` },
    { Host: `localhost:${port}`, Origin: `http://localhost:${port}`, 'Sec-Fetch-Site': 'same-origin' },
    { 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate' },
  ]) {
    t.is((await ask(stats, { headers })).status, 200)
  }
})

test('rejects every method except reads', async (t) => {
  const { url } = await served(t)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']) {
    const { status, headers } = await ask(url, { method })
    t.is(status, 405, method)
    t.is(headers.allow, 'GET, HEAD')
    t.false('access-control-allow-origin' in headers)
  }
  const { status, body } = await ask(url, { method: 'HEAD' })
  t.is(status, 200)
  t.is(body, '')
})

test('a wrong token and a wrong path get the same response', async (t) => {
  const { url } = await served(t)
  const { pathname } = new URL(url)
  const token = pathname.slice(1, -1)
  const other = `${token[0] === 'A' ? 'B' : 'A'}${token.slice(1)}`
  const answers = []
  for (const path of [
    '/',
    `/${token}`,
    `/${other}/`,
    `/${other}/stats?tensor=0`,
    `/${token.slice(0, -1)}/`,
    `/${token}x/`,
    `/${token}/other`,
    `/${token}/../../etc/passwd`,
    `/${token}/%2e%2e/%2e%2e/etc/passwd`,
    `/${token}/stats/0`,
    `//${token}/`,
    `/x/${token}/`,
    '*',
    'http://127.0.0.1/',
    `/${encodeURIComponent('é')}/`,
    `/${'a'.repeat(5000)}/`,
  ]) {
    const { status, body } = await ask(url, { path })
    t.is(status, 404, path)
    answers.push(body)
  }
  t.is(new Set(answers).size, 1)
})

test('computes statistics of the shown tensor', async (t) => {
  const { url } = await served(t)
  const file = await open(MODEL)
  const names = [...file.keys()]
  for (const at of [0, names.length - 1]) {
    const found = JSON.parse((await ask(new URL(`stats?tensor=${at}`, url))).body)
    const { count, min } = await file.tensor(names[at]).stats()
    t.is(found.count, count)
    t.true(Math.abs(found.min - min) <= Math.abs(min) * 1e-4)
    t.is(Buffer.from(found.histogram.bins, 'base64').length, 48)
  }
  file.close()
})

test('rejects invalid tensor numbers', async (t) => {
  const { url } = await served(t)
  for (const tensor of ['', '-1', '1e1', '0x1', '99999', '9'.repeat(40), 'wte', '0;1']) {
    const { status } = await ask(new URL(`stats?tensor=${encodeURIComponent(tensor)}`, url))
    t.is(status, 404, tensor)
  }
})

function cells(body) {
  const { values, ...rest } = JSON.parse(body)
  return { ...rest, cells: [...numbersOf(Float32Array, Buffer.from(values, 'base64'))] }
}

test('returns the last two dimensions of a tensor as cells', async (t) => {
  const cube = Float32Array.from({ length: 2 * 3 * 4 }, (_, at) => at)
  const wide = Float32Array.from({ length: 600 }, (_, at) => at)
  const path = write(
    'slices.safetensors',
    safetensors({ cube: ['F32', [2, 3, 4], cube], scalar: ['F32', [], cube], wide: ['F32', [1, 600], wide] }),
  )
  const file = await open(path)
  const at = (name) => [...file.keys()].indexOf(name)
  const { url } = await served(t, path)
  const slice = async (name, index = '') => (await ask(new URL(`slice?tensor=${at(name)}&at=${index}`, url))).body
  t.deepEqual(cells(await slice('cube', '1')), {
    ...{ rows: 3, columns: 4, steps: [1, 1], of: [3, 4] },
    cells: [...cube.subarray(12)],
  })
  t.deepEqual(cells(await slice('scalar')), { rows: 1, columns: 1, steps: [1, 1], of: [1, 1], cells: [0] })
  const far = cells(await slice('wide'))
  t.like(far, { rows: 1, columns: 200, steps: [1, 3], of: [1, 600] })
  t.deepEqual(far.cells.slice(0, 3), [0, 3, 6])
  file.close()
})

test('rejects an index outside of the tensor', async (t) => {
  const path = write('cube.safetensors', safetensors({ cube: ['F32', [2, 2, 2]] }))
  const { url } = await served(t, path)
  for (const index of ['', '2', '0,0', '-1', '1.5', 'x', '9'.repeat(15), '0,'.repeat(100)]) {
    const { status, body } = await ask(new URL(`slice?tensor=0&at=${encodeURIComponent(index)}`, url))
    t.is(status, 400, index)
    t.truthy(JSON.parse(body).error)
  }
})

test('returns why a tensor has no cells, and continues', async (t) => {
  const path = write('complex.safetensors', safetensors({ c: ['C64', [2, 2]] }))
  const { url } = await served(t, path)
  const { status, body } = await ask(new URL('slice?tensor=0', url))
  t.is(status, 422)
  t.regex(JSON.parse(body).error, /ZT_/)
  t.is((await ask(new URL('stats?tensor=0', url))).status, 200)
})

test('close() ends it, also twice, and leaves a given open file open', async (t) => {
  const file = await open(MODEL)
  const server = await serveReport(file)
  t.is((await ask(server.url)).status, 200)
  await server.close()
  await server.close()
  await t.throwsAsync(ask(server.url), { code: 'ECONNREFUSED' })
  t.false(file.closed)
  file.close()
})

test('rejects unknown options, and a port in use', async (t) => {
  for (const options of [{ port: -1 }, { port: 65_536 }, { port: '80' }, { host: 1 }, { token: 'x' }]) {
    await t.throwsAsync(serveReport(MODEL, options), { code: 'ZT_INVALID_ARG' })
  }
  const { port } = await served(t)
  await t.throwsAsync(serveReport(MODEL, { port }), { code: 'ZT_IO', message: new RegExp(`port ${port}`) })
})

test('on any address, accepts addresses, not names', async (t) => {
  const { port, url } = await served(t, MODEL, { host: '0.0.0.0' })
  const local = url.replace('0.0.0.0', '127.0.0.1')
  t.is((await ask(local)).status, 200)
  t.is((await ask(local, { headers: { Host: `192.0.2.7:${port}` } })).status, 200)
  t.is((await ask(local, { headers: { Host: `rebound.example:${port}` } })).status, 403)
})

// Windows has no signals: a killed process ends immediately.
const onPosix = process.platform === 'win32' ? test.skip : test

onPosix('ztensor serve prints its URL, responds there, and ends at Ctrl-C', async (t) => {
  const child = start(['serve', MODEL])
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data')
  t.is((await ask(line.trim())).status, 200)
  const end = ended(child)
  child.kill('SIGINT')
  const { code, stderr } = await end
  t.is(code, 0)
  t.is(stderr.includes('Press Ctrl-C to stop'), true)
})
