// The types of all entries of the package, for one file.
export {
  type ConvertPlan,
  type ConvertResult,
  convert,
  init as initConvert,
  locate as locateConvert,
  type WebConvertOptions,
  type WebConvertResult,
  type WebTarget,
} from './convert.js'
export * from './index.js'
