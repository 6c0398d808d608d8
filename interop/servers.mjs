// Real servers of files and objects, each on a port of this machine: they send the local files.
import { goodFixtures } from './fixtures.mjs'
import { azurite } from './servers/azurite.mjs'
import { checked } from './servers/checks.mjs'
import { fakeGcs } from './servers/fake_gcs.mjs'
import { models } from './servers/models.mjs'
import { nginx } from './servers/nginx.mjs'
import { versitygw } from './servers/versitygw.mjs'
import { compareUploads } from './uploads.mjs'

/** A promise of the models, which all servers share: they start at the same time, and only the first one writes the files. */
let writing

const through = (start) => async (given) => {
  writing ??= models(given.build)
  const made = await writing
  const server = await start({ ...given, models: made, names: goodFixtures(given.fixtures) })
  try {
    const results = await checked(server, made)
    return server.takes ? [...results, ...(await compareUploads(server.url(''), server.remote))] : results
  } finally {
    await server.stop()
  }
}

export const compareNginx = through(nginx)
export const compareVersitygw = through(versitygw)
export const compareFakeGcs = through(fakeGcs)
export const compareAzurite = through(azurite)
