#!/usr/bin/env node
// Starts the `ztensor` command. It is in a file of its own, which the benchmarks read without running it.
require('./command.js')
