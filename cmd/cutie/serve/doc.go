// Package serve has the commands that make a home and serve it. Here the options of the
// daemon are typed, checked and explained; package daemon gets their values.
package serve
