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
  const AutoModel: any
  const Tensor: any
}
