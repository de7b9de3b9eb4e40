// Package record has the form of events in the journal. A record holds the whole new
// state of its job, so that each can be applied by itself, and again. What is written
// reads as it was; records of the earlier layout are read too. The package is pure.
package record
