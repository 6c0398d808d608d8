// The files next to the weights of a checkpoint: their text goes into GGUF, so none comes from elsewhere on the machine.
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import test from 'ava'
import { convert, open } from 'ztensor'
import { run } from '../helpers/command.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchFolder } from '../helpers/sample-files.mjs'
import { checkpoint } from '../helpers/tiny-checkpoint.mjs'
import { part, serve } from '../remote/web.mjs'

const links = process.platform === 'win32' ? test.skip : test
const SECRET = 'a secret of this machine'

/** A checkpoint, and a folder outside of it with a file. */
async function makeCheckpoint() {
  const { path } = scratchFolder()
  const { folder } = await checkpoint()
  const settings = join(folder, 'tokenizer_config.json')
  const { chat_template: _, ...rest } = JSON.parse(readFileSync(settings, 'utf8'))
  writeFileSync(settings, JSON.stringify(rest))
  mkdirSync(path('outside'))
  for (const name of ['secret', 'secret.jinja']) writeFileSync(path(`outside/${name}`), SECRET)
  return { folder, out: path('out.gguf'), outside: path('outside'), at: path }
}

/** The attributes of the GGUF of a checkpoint. */
async function attributesOf(source, out, options) {
  await convert(source, out, { overwrite: true, ...options })
  const file = await open(out)
  const { metadata: attributes } = file
  file.close()
  return attributes
}

const COMPANIONS = {
  'chat_template.jinja': 'secret',
  'config.json': 'config.json',
  'tokenizer.json': 'tokenizer.json',
  'tokenizer_config.json': 'tokenizer_config.json',
  'generation_config.json': 'generation_config.json',
  additional_chat_templates: '.',
}

for (const [name, target] of Object.entries(COMPANIONS))
  links(`rejects a link out of the folder of a checkpoint, also if the target exists: ${name}`, async (t) => {
    const { folder, out, outside } = await makeCheckpoint()
    for (const file of Object.values(COMPANIONS).filter((file) => file.endsWith('.json'))) {
      let text = '{}'
      try {
        text = readFileSync(join(folder, file))
      } catch {}
      writeFileSync(join(outside, file), text)
    }
    rmSync(join(folder, name), { force: true })
    // A folder of templates counts only beside a template.
    if (target === '.') writeFileSync(join(folder, 'chat_template.jinja'), 'own')
    symlinkSync(join(outside, target), join(folder, name))
    const error = await rejectionOf(() => convert(folder, out))
    t.is(error.code, 'ZT_OUT_OF_BOUNDS', error.message)
    t.regex(error.message, /outside of the folder of the weights.*followLinks/)
    t.true(error.message.includes(name), error.message)
    const { code, stderr } = await run(['convert', folder, out])
    t.not(code, 0)
    t.regex(stderr, /--follow-links/)
    await t.notThrowsAsync(convert(folder, out, { source: { followLinks: true } }))
  })

links('followLinks reads a template outside of the folder, and links inside the folder need no option', async (t) => {
  const { folder, out, outside } = await makeCheckpoint()
  symlinkSync(join(outside, 'secret'), join(folder, 'chat_template.jinja'))
  const followed = await attributesOf(folder, out, { source: { followLinks: true } })
  t.is(followed['tokenizer.chat_template'], SECRET)
  rmSync(join(folder, 'chat_template.jinja'))
  writeFileSync(join(folder, 'own.txt'), 'own')
  symlinkSync('own.txt', join(folder, 'chat_template.jinja'))
  t.is((await attributesOf(folder, out))['tokenizer.chat_template'], 'own')
})

links('a link that leads nowhere is an error, not a missing template', async (t) => {
  const { folder, out } = await makeCheckpoint()
  symlinkSync('nowhere', join(folder, 'chat_template.jinja'))
  t.like(await rejectionOf(() => convert(folder, out)), { code: 'ZT_IO' })
})

links('a snapshot of the cache of the hub reads its own blobs, and no file beside them', async (t) => {
  const { folder, out, at } = await makeCheckpoint()
  const snapshot = at('models--a--b/snapshots/1')
  mkdirSync(snapshot, { recursive: true })
  mkdirSync(at('models--a--b/blobs'))
  writeFileSync(join(folder, 'chat_template.jinja'), 'own')
  const names = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors', 'chat_template.jinja']
  for (const [number, name] of names.entries()) {
    renameSync(join(folder, name), at(`models--a--b/blobs/${number}`))
    symlinkSync(`../../blobs/${number}`, join(snapshot, name))
  }
  t.is((await attributesOf(snapshot, out))['tokenizer.chat_template'], 'own')
  t.is((await attributesOf(join(snapshot, basename('model.safetensors')), out))['tokenizer.chat_template'], 'own')
  rmSync(join(snapshot, 'chat_template.jinja'))
  symlinkSync('../../../outside/secret', join(snapshot, 'chat_template.jinja'))
  t.is((await rejectionOf(() => convert(snapshot, out))).code, 'ZT_OUT_OF_BOUNDS')
})

for (const [title, refuse] of Object.entries({
  'access denied': (response) => response.writeHead(403).end('denied'),
  'a web page': (response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><html></html>'),
}))
  for (const missing of ['config.json', 'tokenizer.json'])
    test(`a server rejects a companion: the error names ${missing} and checkpoint: false, ${title}`, async (t) => {
      const { folder, out } = await makeCheckpoint()
      const { url } = await serve(t, (request, response) => {
        const name = basename(request.url)
        if (name === missing) return refuse(response)
        let bytes
        try {
          bytes = readFileSync(join(folder, name))
        } catch {
          return response.writeHead(404).end()
        }
        return part(request, response, bytes)
      })
      const source = url('/model.safetensors')
      const error = await rejectionOf(() => convert(source, out))
      t.is(error.code, 'ZT_IO')
      t.true(error.message.includes(`'${missing}'`), error.message)
      t.regex(error.message, /checkpoint: false/)
      await convert(source, out, { checkpoint: false })
      t.true((await open(out)).size > 0)
    })
