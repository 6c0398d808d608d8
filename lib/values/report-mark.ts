/** The line of a report, near its beginning, by which `ztensor view` knows a file that it may replace. */
export const REPORT_MARK = '<meta name="generator" content="ztensor report">'
