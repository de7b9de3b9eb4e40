//go:build !race

package publisher_test

const raceEnabled = false
