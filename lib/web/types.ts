// The types of all entries of the package, for one file.
export {
  type ConvertPlan,
  type ConvertResult,
  convert,
  create,
  init as initConvert,
  locate as locateConvert,
  saveFile,
  type Tensors,
  type WebConvertOptions,
  type WebConvertResult,
  type WebCreateOptions,
  type WebSaveFileOptions,
  type WebTarget,
  type WebTensorWriter,
} from './convert.js'
export * from './index.js'
