// biome-ignore-all lint/suspicious/noExplicitAny: the packages' own types have any there
// The types of packages that programs of the guides import and that are not installed: the part that those programs use.
declare module 'fastify' {
  interface Reply {
    type(contentType: string): Reply
    send(payload: unknown): Reply
  }
  type Handler = (request: { body: unknown; params: unknown }, reply: Reply) => unknown
  interface Application {
    post(path: string, options: object, handler: Handler): Application
    addHook(name: 'onClose', hook: () => unknown): Application
    listen(options: { port: number }): Promise<string>
  }
  export default function Fastify(): Application
}

declare module '@huggingface/transformers' {
  const env: {
    useBrowserCache: boolean
    useFSCache: boolean
    useCustomCache: boolean
    customCache: { match(name: string): Promise<Response | undefined>; put(name: string): Promise<void> } | null
    allowRemoteModels: boolean
  }
  interface Model {
    (inputs: object): Promise<{ last_hidden_state: Tensor }>
    dispose(): Promise<unknown>
  }
  const AutoModel: { from_pretrained(name: string, options: object): Promise<Model> }
  class Tensor {
    constructor(type: string, data: ArrayLike<number | bigint>, dims: number[])
    readonly dims: number[]
  }
}

declare module 'electron' {
  interface Port {
    on(name: 'message', listener: (event: { data: any; ports: Port[] }) => void): void
    postMessage(message: unknown, transfer?: Port[]): void
    start(): void
  }
  class BrowserWindow {
    constructor(options?: object)
    loadFile(path: string): Promise<void>
    readonly webContents: { postMessage(channel: string, message: unknown, transfer?: Port[]): void }
  }
  class MessageChannelMain {
    readonly port1: Port
    readonly port2: Port
  }
  const app: {
    whenReady(): Promise<void>
    getAppPath(): string
    getPath(name: 'temp'): string
    exit(code: number): void
  }
  const contextBridge: { exposeInMainWorld(name: string, api: unknown): void }
  const ipcMain: { handle(channel: string, listener: (event: object, ...args: any[]) => unknown): void }
  const ipcRenderer: {
    invoke(channel: string, ...args: unknown[]): Promise<unknown>
    once(channel: string, listener: (event: { ports: MessagePort[] }) => void): void
  }
  const utilityProcess: {
    fork(path: string): { postMessage(message: unknown, transfer?: Port[]): void }
  }
  const webUtils: { getPathForFile(file: File): string }
}

declare namespace NodeJS {
  interface Process {
    parentPort: {
      once(name: 'message', listener: (event: { data: any; ports: import('electron').Port[] }) => void): void
    }
  }
}
