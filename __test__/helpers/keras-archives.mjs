// Archives of Keras as other programs write them: the members of a model, zipped again with other settings.
import { zip } from '../corpus/numpy.mjs'

const TEXTS = { 'metadata.json': '{"keras_version":"3.8.0"}', 'config.json': '{"class_name":"Functional"}' }

/** The members, including the weights, with options for all of them. */
export const members = (weights, how = {}) =>
  [...Object.entries(TEXTS), ['model.weights.h5', weights]].map(([name, data]) => ({
    name,
    data: Buffer.from(data),
    ...how,
  }))

export const keras = (weights, how) => zip(members(weights, how))

/** The members, the last of them changed. */
export const last = (all, change) =>
  all.map((member, nth) => (nth === all.length - 1 ? { ...member, ...change(member) } : member))
