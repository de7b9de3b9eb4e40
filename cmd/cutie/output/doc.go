// Package output is where the results of commands go.
//
// A result goes to a file, which appears whole or not at all, or to standard output.
// Text from outside may hold control characters, or may reverse text on a screen. A
// terminal gets these characters escaped; files and pipes get exact text. Payloads
// and results of jobs are exact everywhere. A list is a table on a terminal, and
// lines of exact fields separated by tabs elsewhere.
package output
