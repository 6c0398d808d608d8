// The public surface, read from the types by the compiler, so that guards miss no function.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { ENTRIES } from '../../scripts/entries.mjs'

/** The path of the types of an entry in the compiler's notation, also on Windows. */
const typesOf = (entry) => fileURLToPath(new URL(`../../${entry}.d.ts`, import.meta.url)).replaceAll('\\', '/')
const HIDDEN = ts.ModifierFlags.Private | ts.ModifierFlags.Protected

/**
 * The exports of a declaration file. `calls` has an entry for each signature of an exported function, and of each method that an exported
 * class or interface declares itself, constructors not among them:
 *   { owner, name, promises, parameters: [{ name, optional, properties: [names] }] }
 * `owner` is the class or interface; `promises` says whether the result is a promise; `properties` are those of the objects that a
 * parameter can be, through unions, intersections, inline types and the likes of Pick and Omit. `literals` maps the name of each type,
 * exported or not, that is a union of texts to these. `text` stands in for the contents of the file of an entry.
 */
export function surfaceOf(text, entry = 'index') {
  const path = typesOf(entry)
  const options = {
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2022.d.ts', 'lib.esnext.disposable.d.ts'],
    types: ['node'],
    module: ts.ModuleKind.Node16,
    moduleResolution: ts.ModuleResolutionKind.Node16,
    strict: true,
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile } = host
  host.getSourceFile = (name, ...rest) =>
    name === path ? ts.createSourceFile(name, text, options.target, true) : getSourceFile.call(host, name, ...rest)
  const program = ts.createProgram([path], options, host)
  const file = program.getSourceFile(path)
  const wrong = program.getSemanticDiagnostics(file).concat(program.getSyntacticDiagnostics(file))
  if (wrong.length > 0) throw new Error(ts.flattenDiagnosticMessageText(wrong[0].messageText, '\n'))
  const checker = program.getTypeChecker()
  const surface = { calls: [], literals: {} }

  /** The types that a value can have: the members of a union. */
  const alternatives = (type) => (type.isUnion() ? type.types.flatMap(alternatives) : [type])
  const isPromise = (type) =>
    alternatives(type).some((one) => one.symbol?.name === 'Promise' || one.symbol?.name === 'PromiseLike')
  const propertiesOf = (type) =>
    alternatives(type)
      .filter((one) => (one.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0)
      .flatMap((one) => checker.getPropertiesOfType(one).map(({ name }) => name))

  const addCall = (declaration, owner) => {
    const signature = checker.getSignatureFromDeclaration(declaration)
    const parameters = signature.parameters.map((symbol) => {
      const parameter = symbol.valueDeclaration
      const type = checker.getTypeOfSymbolAtLocation(symbol, parameter)
      return {
        name: symbol.name,
        optional: checker.isOptionalParameter(parameter),
        properties: [...new Set(propertiesOf(type))],
      }
    })
    const promises = isPromise(checker.getReturnTypeOfSignature(signature))
    surface.calls.push({ owner, name: declaration.name.getText(file), promises, parameters })
  }

  for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(file))) {
    for (const declaration of symbol.declarations) {
      if (ts.isFunctionDeclaration(declaration)) addCall(declaration)
      else if (ts.isClassDeclaration(declaration) || ts.isInterfaceDeclaration(declaration)) {
        for (const member of declaration.members) {
          const isMethod = ts.isMethodDeclaration(member) || ts.isMethodSignature(member)
          if (isMethod && (ts.getCombinedModifierFlags(member) & HIDDEN) === 0) addCall(member, symbol.name)
        }
      }
    }
  }
  for (const declaration of file.statements.filter(ts.isTypeAliasDeclaration)) {
    const types = alternatives(checker.getTypeAtLocation(declaration))
    if (types.every((one) => one.isStringLiteral()))
      surface.literals[declaration.name.text] = types.map(({ value }) => value)
  }
  return surface
}

/** The surface of all entries. */
function wholeSurface() {
  const parts = ENTRIES.map((entry) => surfaceOf(readFileSync(typesOf(entry), 'utf8'), entry))
  return {
    calls: parts.flatMap(({ calls }) => calls),
    literals: Object.assign({}, ...parts.map(({ literals }) => literals)),
  }
}

export const surface = wholeSurface()

/** The name that a call has in tables of cases: `open`, `tensor.load`. */
export const titleOf = ({ owner, name }) => {
  if (owner === undefined) return name
  const short = { TensorFile: 'file', TensorWriter: 'writer', TensorEditor: 'editor' }[owner] ?? owner
  return `${short[0].toLowerCase()}${short.slice(1)}.${name}`
}

/**
 * Names of calls that return a promise and have no parameter with a property `signal`. Calls of a class in `bound` end by the signal that its
 * creator took; `ends` names calls that end something themselves.
 */
export const withoutSignal = ({ calls }, { bound = [], ends = [] } = {}) => [
  ...new Set(
    calls
      .filter(({ promises, owner, name }) => promises && !bound.includes(owner) && !ends.includes(name))
      .filter(({ parameters }) => !parameters.some(({ properties }) => properties.includes('signal')))
      .map(titleOf),
  ),
]
