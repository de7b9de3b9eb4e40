//go:build race

package queuefs_test

const raceEnabled = true
