//go:build race

package publisher_test

const raceEnabled = true
