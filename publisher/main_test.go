package publisher_test

import (
	"testing"

	"cutie/testdata/tmpfs"
)

func TestMain(m *testing.M) {
	tmpfs.Use()
	m.Run()
}
