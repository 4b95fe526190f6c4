// The broker aedes on a port of this machine: node broker.js PORT.
'use strict'

const aedes = require('aedes')()

require('node:net').createServer(aedes.handle).listen(Number(process.argv[2]), '127.0.0.1')
