// Package jobs has the commands about queues and their jobs.
//
// Each is one request to a target, or one for each job or batch, and its answer in
// words, as a table, or in a response form. Commands that change many jobs name them
// or select them by options.
package jobs
