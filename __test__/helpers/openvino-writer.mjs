// OpenVINO models as text, including malformed ones.

const escaped = (text) => `${text}`.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')
const spelled = (attributes) =>
  Object.entries(attributes)
    .filter(([, value]) => value != null)
    .map(([key, value]) => ` ${key}="${escaped(value)}"`)
    .join('')

/** An element: `children` are texts. */
export const element = (name, attributes = {}, ...children) =>
  `<${name}${spelled(attributes)}${children.length === 0 ? '/' : `>${children.join('')}</${name}`}>`

/** A layer of a constant: by default, two float32 at the beginning of the data. */
export const constant = ({ name = 'w', kind = 'f32', shape = '2', offset = 0, size = 8 } = {}, ...more) =>
  element(
    'layer',
    { id: 0, name, type: 'Const', version: 'opset1' },
    element('data', { element_type: kind, shape, offset, size }),
    ...more,
  )

/** A layer with a body of those layers. */
export const holder = (name, body, ...layers) =>
  element('layer', { name, type: 'Loop' }, element(body, {}, element('layers', {}, ...layers)))

/** A document of those layers, and of their siblings. */
export const model = (layers, { version = 11, name = 'model', more = [], before = '<?xml version="1.0"?>\n' } = {}) =>
  Buffer.from(before + element('net', { name, version }, element('layers', {}, ...layers), ...more))
