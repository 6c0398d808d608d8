import { open, type TensorFile } from 'ztensor'
import { type ReportOptions, type ReportServer, report, serveReport } from 'ztensor/report'
import { type Equal, holds } from './equal.js'

const html = report('model.zt')
holds<Equal<typeof html, Promise<string>>>()

const file: TensorFile = await open('model.zt')
const options: ReportOptions = {
  against: file,
  statistics: false,
  onProgress: ({ bytes, totalBytes }) => console.log((bytes satisfies number) / (totalBytes satisfies number)),
  signal: AbortSignal.timeout(1000),
}
await report(file, options)
await report(new URL('file:///model.zt'), { against: ['a.zt', 'b.zt'] })
// @ts-expect-error: no such option
await report(file, { stats: true })

{
  await using server = await serveReport(file, { ...options, port: 0, host: '127.0.0.1' })
  server satisfies ReportServer
  holds<Equal<typeof server.url, string>>()
  holds<Equal<typeof server.port, number>>()
  // @ts-expect-error: it is where it is
  server.url = ''
}
// @ts-expect-error: a report is not served
await report(file, { port: 0 })
