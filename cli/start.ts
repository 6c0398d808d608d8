#!/usr/bin/env node
// Starts the `ztensor` command. It is in a separate file, so that Node can cache its compiled code (22.8 and later).
import module from 'node:module'

const { enableCompileCache } = module as { enableCompileCache?: () => unknown }
enableCompileCache?.()
const { main } = require('./command.js') as typeof import('./main.js')
void main()
