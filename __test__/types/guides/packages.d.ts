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
