//go:build !race

package queuefs_test

const raceEnabled = false
