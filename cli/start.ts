#!/usr/bin/env node
// Starts the `ztensor` command, which is in a file of its own: Node keeps its compiled code where it can (22.8 and later).
import module from 'node:module'

const { enableCompileCache } = module as { enableCompileCache?: () => unknown }
enableCompileCache?.()
require('./command.js')
